package convert

import "k8s.io/apimachinery/pkg/util/validation/field"

// Field paths that are needed again and again, built once.
var (
	metadataPath     = field.NewPath("metadata")
	specPath         = field.NewPath("spec")
	statusPath       = field.NewPath("status")
	clusterIPsPath   = specPath.Child("clusterIPs")
	externalIPsPath  = specPath.Child("externalIPs")
	familiesPath     = specPath.Child("ipFamilies")
	policyPath       = specPath.Child("ipFamilyPolicy")
	sourceRangesPath = specPath.Child("loadBalancerSourceRanges")
	ingressPath      = statusPath.Child("loadBalancer", "ingress")
)
