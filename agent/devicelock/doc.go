// Package devicelock keeps a device for one run at a time, by a lock file for each device of the node.
//
// A lock is the shim's alone: no worker has a descriptor of it, which it could pass on. So that a device stays taken when
// the shim dies and something of its run does not, each lock file says whose it is (Claim), and who takes the lock has the
// caller look first for what is left of that run. A lock that is held although nothing of its run lives is cleared away:
// its holder keeps a file that stands for nothing any more.
//
//	locks, err := devicelock.Take(ctx, devicelock.Request{Dir: dir, Devices: devices, Claim: claim, Left: sweep.Left, Waiting: say})
//	…
//	err = locks.Close()                              // the files name the run still
//	held, err := devicelock.Of(dir, devices, run).GiveBack() // once nothing is left of it
//
// Decision: ADR 37.
package devicelock
