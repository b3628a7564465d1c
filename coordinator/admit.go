package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// request is one that waits below a node.
type request struct {
	record.Versioned[record.Request]
	id  string
	key string
}

// requests carries out what users ask for, in the order in which it was
// written; each is deleted by the transaction that carries it out.
func (c *Coordinator) requests() {
	var all []request
	for _, n := range c.mirror.NodeIDs() {
		for id, r := range c.mirror.Node(n).Requests {
			all = append(all, request{r, id, record.RequestKey(n, id)})
		}
	}
	c.usage = nil
	slices.SortFunc(all, func(a, b request) int { return cmp.Or(cmp.Compare(a.Create, b.Create), cmp.Compare(a.key, b.key)) })
	for _, r := range all {
		v := c.mirror.Job(r.Value.Job) // of requests about nodes: none, which one of them at a time keeps busy
		if c.busy(v) {
			continue
		}
		switch r.Value.Kind {
		case record.SubmitRequest:
			c.admit(r, v)
		case record.StopRequest:
			c.stop(r, v)
		case record.ResumeRequest:
			c.resume(r, v)
		case record.ScaleRequest:
			c.scale(r, v)
		case record.DrainRequest:
			c.drain(r)
		case record.UndrainRequest:
			c.undrain(r)
		case record.RemoveRequest:
			c.removeNode(r)
		default:
			c.drop(r, v, fmt.Sprintf("unknown kind %q", r.Value.Kind))
		}
	}
}

// admit sends ADMIT. A job that cannot be is admitted as failed, so that its
// submitter learns why; only a request that names no possible job is dropped.
func (c *Coordinator) admit(r request, v *record.JobView) {
	switch {
	case v.Spec.Exists():
		c.drop(r, v, "") // submitted again: accepted before
		return
	case r.Value.Spec == nil || !possibleID(r.Value.Job, r.Value.Spec.Name):
		c.drop(r, v, "job id and spec do not belong together")
		return
	}
	spec := record.Submitted{Spec: r.Value.Spec.WithDefaults(), ID: r.Value.Job, Owner: r.Value.Owner, At: r.Value.At}
	spec.NoNewPrivs = spec.NoNewPrivs || c.cfg.NoNewPrivs
	s := record.State{Phase: cluster.Queued, Since: c.now, Reason: acceptedWhy}
	if err := spec.Validate(); err != nil {
		s.Phase, s.Reason = cluster.Failed, "spec is not valid: "+strings.ReplaceAll(err.Error(), "\n", "; ")
	} else if c.small(spec.ID) {
		s.Phase, s.Reason = cluster.Failed, "this etcd takes no spec of such a size: shorten the command or the environment, or put them into files"
	} else if why := c.overLimit(r, spec.Spec); why != "" {
		s.Phase, s.Reason = cluster.Failed, why
	} else if other, used := c.nameUsed(spec.Name); used {
		s.Phase, s.Reason = cluster.Failed, fmt.Sprintf("name %q is in use by %s", spec.Name, other)
	}
	s.Reason = c.worded(spec.ID, s.Reason)
	if s.Phase == cluster.Failed {
		spec.Spec = remnant(spec.Spec)
	}
	m := move{
		verb: "admit", job: &record.JobView{ID: spec.ID},
		ifs: []record.Compare{record.Absent(record.SpecKey(spec.ID)), record.Unchanged(r.key, r.Mod)},
		then: []record.Op{
			record.Put(record.SpecKey(spec.ID), spec),
			record.Put(record.WantedKey(spec.ID), record.Wanted{Run: true, By: spec.Owner.User, At: spec.At}),
			record.Put(record.StateKey(spec.ID), s),
			record.Delete(r.key),
		},
		note: phaseNote(v, s),
	}
	if s.Phase == cluster.Queued {
		m.name = spec.Name
		m.event = record.Event{Kind: record.JobSubmitted, Job: spec.ID, By: spec.Owner.User}
	}
	c.send(m)
}

// remnant is what is kept of a spec that was refused: enough to tell whose and which
// it was, whatever its size.
func remnant(s cluster.Spec) cluster.Spec {
	const most = 256 // bytes of each text
	kept := cluster.Spec{
		Name: s.Name, Workdir: record.Cut(s.Workdir, most), CheckpointDir: record.Cut(s.CheckpointDir, most),
		MinWorkers: s.MinWorkers, MaxWorkers: s.MaxWorkers, BatchSize: s.BatchSize, Priority: s.Priority,
		MaxRestarts: s.MaxRestarts, HaltTimeout: s.HaltTimeout,
	}
	if len(s.Command) > 0 {
		kept.Command = []string{record.Cut(s.Command[0], most)}
	}
	return kept
}

// acceptedWhy is the reason of a job that has been admitted and not looked at yet.
const acceptedWhy = "accepted"

// nameUsed returns the live job that has the name, or is about to.
func (c *Coordinator) nameUsed(name string) (cluster.JobID, bool) {
	if id, used := c.named(name); used {
		return id, true
	}
	for id, f := range c.flights {
		if f.name == name {
			return id, true // at most one: the second would have found the first
		}
	}
	return "", false
}

// stop notes that the owner wants the job stopped. Only one that says Now cuts a
// save short: whoever asks again out of impatience must not lose work by it.
func (c *Coordinator) stop(r request, v *record.JobView) {
	owner := r.Value.Owner
	w := v.Wanted.Value
	asked := v.Wanted.Exists() && !w.Run && (w.Now || !r.Value.Now)
	if why := c.forbidden(r, v, "stop"); why != "" || v.State.Value.Phase.Terminal() || asked || repeated(r, v) {
		c.drop(r, v, why)
		return
	}
	w.Now = r.Value.Now
	w.Run, w.By, w.At, w.Request = false, owner.User, r.Value.At, r.id
	how := ""
	if w.Now {
		how = "at once, whatever it has not saved"
	}
	m := move{
		verb: "want-stop", job: v,
		ifs: []record.Compare{record.Unchanged(r.key, r.Mod)},
		then: []record.Op{
			record.Delete(r.key),
			record.Put(record.WantedKey(v.ID), w),
		},
		note:  Note{Job: v.ID, Gen: v.State.Value.Generation, Text: "stop asked for by " + owner.User},
		event: record.Event{Kind: record.JobStopping, Job: v.ID, Generation: v.State.Value.Generation, By: owner.User, Why: how},
	}
	if f := c.formed(v); r.Value.Now && f.state().Phase == cluster.Halting && f.gen.Permit.Exists() {
		h, s := f.gen.Halt.Value, c.next(v, cluster.Halting, atOnceBy(owner.User)+"; its save was not waited for")
		h.Save, h.Why, h.At = false, atOnceBy(owner.User), c.now
		m.then = append(m.then,
			record.Put(record.StateKey(v.ID), s),
			record.Put(record.HaltKey(v.ID, f.number()), h),
			record.Delete(record.PermitKey(v.ID, f.number())))
	}
	c.send(m)
}

// atOnceBy is the reason of a stop that waits for no save.
func atOnceBy(user string) string { return "stopped at once by " + user }

// forbidden says why a request about a job is not its owner's or root's to make, empty if it is.
func (c *Coordinator) forbidden(r request, v *record.JobView, verb string) string {
	switch owner := r.Value.Owner; {
	case !v.State.Exists() || !v.Spec.Exists():
		return verb + ": no such job"
	case owner.UID != 0 && owner.UID != v.Spec.Value.Owner.UID:
		return fmt.Sprintf("%s: %s (uid %d) does not own the job", verb, owner.User, owner.UID)
	}
	return ""
}

// repeated reports whether a request was carried out already: its answer was lost, and it was sent again.
func repeated(r request, v *record.JobView) bool {
	return r.id != "" && v.Wanted.Value.Request == r.id
}

// drop deletes a request that has nothing to carry out; why is for the log, empty if all is well.
func (c *Coordinator) drop(r request, v *record.JobView, why string) {
	m := move{
		verb: "drop", job: v,
		ifs:  []record.Compare{record.Unchanged(r.key, r.Mod)},
		then: []record.Op{record.Delete(r.key)},
	}
	if why != "" {
		m.note = Note{Warn: true, Job: v.ID, Text: fmt.Sprintf("drop request of uid %d: %s", r.Value.Owner.UID, why)}
	}
	c.send(m)
}

// suffixLength is how many characters of the request's identifier a job's ends in.
const suffixLength = 6

// possibleID reports whether the identifier is the name and a suffix of lower-case
// base32, and safe to make keys and paths of, whatever the name holds.
func possibleID(id cluster.JobID, name string) bool {
	suffix, ok := strings.CutPrefix(string(id), name+"-")
	if !ok || len(suffix) != suffixLength || strings.Trim(suffix, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return false
	}
	return cluster.CheckName(name) == nil
}
