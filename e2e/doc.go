// Package e2e runs the whole of Bellows as people do: the built binary, a real
// etcd, agents and coordinators as processes of their own, real training
// scripts. Its observer reads etcd, never the processes' memory.
//
// Each test brings up its own fleet on its own loopback addresses and ends
// whatever is left of it. What Bellows itself must not leave behind is asked for
// where a test says so: processes, locks, ports, files, records.
//
// Go 1.26 begins parallel tests roughly in the reverse order of their files' names, and
// parallel subtests last. A test that takes minutes belongs in one of the last files: it
// begins early, and other tests run beside it until it has ended.
package e2e
