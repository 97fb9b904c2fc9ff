package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

var errUsage = errors.New("usage: kubeapi etcd|apiserver FLAGS..., or kubeapi controllers -kubeconfig FILE")

func main() {
	if len(os.Args) < 2 {
		fail(errUsage)
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "etcd":
		etcdmain.Main(append([]string{"etcd"}, args...))
	case "apiserver":
		command := app.NewAPIServerCommand()
		command.SetArgs(args)
		os.Exit(cli.Run(command))
	case "controllers":
		if err := controllers(args); err != nil {
			fail(err)
		}
	default:
		fail(errUsage)
	}
}

// controllers runs the controllers until the process is told to end.
func controllers(args []string) error {
	flags := flag.NewFlagSet("controllers", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "the file that says how to reach the API server")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parsing flags: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return runControllers(ctx, *kubeconfig)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kubeapi:", err)
	os.Exit(1)
}
