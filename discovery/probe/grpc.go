package probe

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
)

// checkGRPC asks the standard health service; SERVING is a success.
func (n *network) checkGRPC(ctx context.Context, action *corev1.GRPCAction, address string) error {
	creds := insecure.NewCredentials()
	if action.Mode != nil && *action.Mode == corev1.GRPCProbeModeTLS {
		creds = credentials.NewTLS(n.tls.Clone())
	}
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(creds), grpc.WithUserAgent(userAgent), grpc.WithNoProxy())
	if err != nil {
		return fmt.Errorf("probing by gRPC: %w", err)
	}
	defer conn.Close() //nolint:errcheck // it was only read
	var service string
	if action.Service != nil {
		service = *action.Service
	}
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		return fmt.Errorf("probing by gRPC: %w", err)
	}
	if resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("probing by gRPC: service %q is %s", service, resp.GetStatus())
	}
	return nil
}
