// Package dev is a small cluster on one machine: etcd in this process, and the coordinator and
// each agent, with simulated devices, as child processes that it keeps running.
//
// It promises that nothing of the cluster is left running when Run returns, that jobs are halted
// with a save before, and that the next start on the same data directory goes on with them. What
// is killed is recognised by the data directory in its environment or its command line, so
// another cluster, of another directory, is never touched.
package dev
