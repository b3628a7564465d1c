// Package e2e runs the whole of Bellows as people do: the built binary, a real
// etcd, agents and coordinators as processes of their own, real training
// scripts. Its observer reads etcd, never the processes' memory.
//
// Each test brings up its own fleet on its own loopback addresses and leaves
// nothing behind: a process of the fleet that survives its test is a failure.
package e2e
