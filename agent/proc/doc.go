// Package proc reads what Linux shows of the processes of this machine, and kills exactly the process that was read.
//
// A pid alone names no process: it is given to another one later. A Stat is a process as it was at one look, with its
// start time, and run.Process is its name for as long as the machine runs. Nothing here waits for a process, whatever
// that does, but for what is read of its memory, its environment and its command line: see package sweep.
//
//	all, err := proc.All()
//	below := proc.FamilyOf(all).Descendants(map[int]bool{pid: true})
//	err = proc.KillEach(below)
package proc
