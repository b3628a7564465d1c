// Package machine is one node of a cluster in memory: its processes, shims, run
// directories and checkpoints, and an agent. What decides is production's: agent.Plan
// for the agent, run.State for each shim.
//
// It promises to do for each of their actions what agent/host and agent/shim do,
// to write the same records under the same conditions, and to show them the same
// facts. What a node keeps is kept apart as it is on a real one: processes
// outlive the agent, run directories outlive the processes, and the agent's own
// memory ends with the agent. So an agent that is restarted adopts what it finds.
//
// Time is virtual and belongs to the caller, as do etcd, the training script and
// all that goes wrong: Faults says how long each thing takes and whether it
// succeeds, and a Machine's methods take away its power, its agent, its network
// or a run directory. A Machine without faults does everything at once.
//
// Left out is what no record shows: sockets, logs, cgroups, device files, and how
// a checkpoint's files are read. One goroutine owns all machines of a cluster.
package machine
