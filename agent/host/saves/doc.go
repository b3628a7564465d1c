// Package saves does what a node does with the checkpoints of its jobs: it makes what the ranks have saved durable and lists it,
// puts the manifests of whole checkpoints together, looks for what plain scripts have saved, verifies the checkpoint that a
// generation resumes from, deletes what no start resumes from any more, and looks whether there is room for the next one.
//
// All of it reads and writes what belongs to jobs' owners, and so is done as the owner, in a process of that user (Tasks), in
// bounded time. The loop owns Saves and each Run; each piece of work goes on beside it.
//
// A save that could not be made durable is lost for good, and that is written down before anything else: see lost.go.
//
//	sv := saves.New(loop, saves.Config{…}, store)
//	r := saves.NewRun()                 // one a generation
//	sv.Digest(lane, r, generation, a)   // as agent.Plan has it
//	sv.Look(r, generation)              // with each step: plain checkpoints, surplus, room
package saves
