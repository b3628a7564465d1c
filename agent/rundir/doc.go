// Package rundir knows the files of a run directory and the names of what belongs to a run.
//
// A run is one generation of a job on one node. Its directory outlives the agent and the shim: the agent writes what it
// wants (Order), the shim who it is and where its processes are (Record), and what it last reported. Whatever is left of a
// run is found by this directory, by its path in environments and command lines, or by a name that is made of it.
//
// What is written survives a power cut. A file of a version that is yet to come is ErrUnreadable, and so is one that is damaged.
//
//	err := rundir.WriteOrder(dir, order)     // the agent
//	err = rundir.Claim(dir, record)          // the shim: a run has one in its life
//	runs, unreadable, err := rundir.Scan(root)
package rundir
