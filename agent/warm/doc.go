// Package warm has the workers of a prepared generation run ahead of it until they are parked, and releases them at its start.
//
// A parked process is the worker itself, executed early: with the job's own command, as its owner, in the run's containment,
// but without devices and without what only a plan tells. It has run the script up to the first place where that would look
// at anything that a plan, another process or the moment decides, or would change anything outside (sdk/ahead.py). At its
// release it is told the plan, and goes on from there, unless what it has read has changed since.
//
// Whatever goes wrong up to the release costs the head start and nothing else: the worker is executed anew.
//
//	all, err := warm.Parking{…}.Park(ctx, 2)  // beside the loop of the run, which may have a say: Loop
//	r := warm.Release{…}
//	err = r.Bind(all)                          // each says that it can go on
//	err = r.LetGo(ctx, all)
//
// What is learned of a job from one start to the next is kept in a file on the node (Learned).
//
// Decision: ADR 58.
package warm
