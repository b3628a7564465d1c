// Package contain holds the processes of one run together, so that nothing that a worker starts outlives the run, and
// within what they may have: memory, processors, processes and device files.
//
// Two fences stand around them. The shim is subreaper: whatever a worker leaves behind, also with setsid and a double
// fork, becomes the shim's child and nobody else's. And there is a group of the kernel's, where the machine and the
// user's rights allow one: a cgroup v2, or one of the v1 freezer. Without it the containment is weak: it is gone with
// the shim, and a sweep must then look for the processes by their environment.
//
//	contain.Subreaper()
//	c, err := contain.New(contain.Config{Name: "bellows-j-g1-1f2e3d4c-4242"})
//	c.KeepDevices(files)                    // before any worker is executed
//	err = c.Limit(limits, processes, member)
//	pid, err := c.Execute(0, "/usr/bin/python3", argv, attr)
//	…
//	c.Kill()                                // repeated until Empty
//	c.Remove()
//
// What a group may have of a controller is a rule. The kernel keeps a controller in cgroup v2 or in a hierarchy of v1,
// and calls its files differently there: a rule knows both, and home is the one place that finds out which it is.
//
// Decisions: ADR 29 (limits), ADR 37 (device files), ADR 58 (what runs ahead), ADR 62 (one rule for both versions).
package contain
