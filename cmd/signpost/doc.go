// Command signpost answers the DNS names of a cluster's Services and makes
// their virtual addresses work, on one node. This package is the command line;
// it reads arguments, calls the packages below, and prints.
//
//	corefile   what a Corefile means: text ──> the packages' Configs
//	server     the running server: wiring, reload, signals, health, metrics
//	dataplane  which backends there are and which one this machine can run
//	admin      the API of the running server, and its client
//	printer    objects ──> kubectl-shaped tables, YAML, JSON
//
// Nothing imports this package or those below it.
package main
