package serve

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// signalBase is what a shell adds to a signal's number to make an exit status of it.
const signalBase = 128

// timedOutStatus is the exit status of a job that its time limit has ended, as timeout(1) has it.
const timedOutStatus = 124

// jobStatus puts together what is recorded of a job, as far as who may see it. about
// are the nodes that may have something to say of it.
func jobStatus(m *record.Mirror, v *record.JobView, who cluster.Owner, about []cluster.NodeID) api.JobStatus {
	spec, state := v.Spec.Value, v.State.Value
	s := specStatus(v.ID, v.Scaled().Shown(mayRead(who, spec.Owner.UID)), spec.Owner, spec.At)
	s.Phase, s.Ended = state.Phase, state.Phase.Terminal()
	s.Stopping = v.Wanted.Exists() && !v.Wanted.Value.Run && !s.Ended
	s.Generation = uint64(state.Generation)
	s.Since, s.Reason, s.Because = state.Since, state.Why().String(), state.Why()
	if why := v.Unreadable(); why != "" {
		s.Phase, s.Ended, s.Reason = cmp.Or(state.Phase, cluster.Held), false, why
		s.Because = reason.Of(reason.New(reason.Unusable, "said", why))
	}
	s.Restarts, s.Pinned, s.OutOfMemory, s.BatchLimit = state.Restarts, state.Pinned, state.OutOfMemory, state.BatchLimit
	if !state.Next.IsZero() && state.Phase == cluster.Backoff {
		s.NextStart = &state.Next
	}
	for n, why := range state.Excluded {
		if s.Excluded == nil {
			s.Excluded = map[string]string{}
		}
		s.Excluded[string(n)] = why
	}
	s.Answer = answerOf(m, v)
	s.RanS, s.TimedOut = time.Duration(state.Ran).Seconds(), v.TimedOut()
	if at, limited := v.LimitAt(); limited && at.Year() < lastYear {
		s.LimitAt = &at
	}
	addPending(&s, state, leaderOf(m))
	g := v.Generation(state.Generation)
	s.Saving = state.Phase == cluster.Halting && g.Permit.Exists() && g.Halt.Value.Save
	if deadline := g.Halt.Value.Deadline; s.Saving && !deadline.IsZero() {
		s.SaveUntil = &deadline
	}
	plan := g.Plan
	if plan.Exists() && state.Phase.Active() {
		s.Workers = plan.Value.World.Size()
		s.Members = members(m, plan.Value.World)
		s.Next, s.Unforkable = prepared(m, v.ID), unforkable(m, plan.Value.World)
	}
	s.Progress = progressOf(m, v, about)
	if !mayRead(who, spec.Owner.UID) {
		s.Progress.Line = ""
	}
	s.JobSpeed = jobSpeed(m, v, s)
	s.Problems = problemsOf(m, v, about)
	addRescales(&s, v)
	s.Checkpoints = checkpoints(v)
	s.Failure = failureOf(m, v, mayRead(who, spec.Owner.UID), about)
	s.ExitCode = exitCode(m, v, s)
	return s
}

// answerOf is the answer to the job's deadline, and whether it still holds.
func answerOf(m *record.Mirror, v *record.JobView) *api.DeadlineAnswer {
	out := answerShown(v.Spec.Value.Answer)
	if out != nil {
		p := m.Promised.Value.Jobs[v.ID]
		if out.Lost = p.Broken; p.Deadline.After(v.Spec.Value.Answer.Deadline) {
			out.By = &p.Deadline
		}
	}
	return out
}

// answerShown is the answer to a deadline as it is shown.
func answerShown(a *record.Answer) *api.DeadlineAnswer {
	if a == nil {
		return nil
	}
	out := &api.DeadlineAnswer{Promised: a.Promised, Why: a.Why}
	if a.Late() {
		out.By = &a.By
	}
	if !a.Ends.IsZero() {
		out.Ends = &a.Ends
	}
	if o := a.Offer; o != nil {
		out.Offer = &api.DeadlineOffer{MaxWorkers: o.MaxWorkers, MinWorkers: o.MinWorkers, Steps: o.Steps}
		if !o.Deadline.IsZero() {
			out.Offer.Deadline = &o.Deadline
		}
	}
	return out
}

// pendingStatus is a job whose submission no leader has carried out yet.
func pendingStatus(m *record.Mirror, r record.Request, who cluster.Owner) api.JobStatus {
	s := specStatus(r.Job, r.Spec.Shown(mayRead(who, r.Owner.UID)), r.Owner, r.At)
	s.Phase, s.Since, s.Unadmitted = cluster.Queued, r.At, true
	s.WhyPending = "accepted; the coordinator has not admitted it yet"
	if leaderOf(m) == "" {
		s.WhyPending, s.NoLeader = "accepted, queued: no coordinator leads", true
	}
	s.Reason = s.WhyPending
	return s
}

// specStatus is what a spec tells of a job, as it may be seen.
func specStatus(id cluster.JobID, shown cluster.Spec, owner cluster.Owner, at time.Time) api.JobStatus {
	return api.JobStatus{
		Spec: shown, Priority: shown.Priority, ID: string(id), Owner: owner.User, UID: owner.UID,
		MicroBatch: shown.MicroBatch(), GraceS: time.Duration(shown.Grace).Seconds(), TimeLimitS: time.Duration(shown.TimeLimit).Seconds(),
		SubmittedAt: at, Progress: api.Progress{StepsTotal: shown.Steps},
	}
}

func addPending(s *api.JobStatus, state record.State, leader string) {
	switch state.Phase {
	case cluster.Queued, cluster.Backoff, cluster.Held:
		s.WhyPending = cmp.Or(state.Why().String(), reason.New(reason.Undecided).String())
		if leader == "" {
			s.WhyPending += "; no coordinator leads"
		}
	case cluster.Starting, cluster.Running, cluster.Halting, cluster.Succeeded, cluster.Failed, cluster.Stopped, cluster.Refused:
	}
}

func members(m *record.Mirror, w cluster.World) []api.Member {
	list := make([]api.Member, 0, len(w.Members))
	for _, member := range w.Members {
		node := m.Node(member.Node)
		acks := node.Ack(w.Job, w.Generation, w.Nonce)
		x := api.Member{
			Node: string(member.Node), FirstRank: member.FirstRank, Processes: member.Processes(),
			Started: acks.Started.Exists(), Stopped: acks.Stopped.Exists(),
			Containment: acks.Started.Value.Containment, DeviceFiles: acks.Started.Value.DeviceFiles, ProcessLimit: acks.Started.Value.Processes,
			Warm: acks.Started.Value.Warm, Parked: acks.Started.Value.Parked, Cold: acks.Started.Value.Cold,
			Lost: !node.Alive.Exists(), Model: strings.Join(modelsOf(node.Inventory.Value.Devices, member.Devices), ", "),
		}
		for _, d := range member.Devices {
			x.Devices = append(x.Devices, string(d))
		}
		for _, worker := range acks.Started.Value.Workers {
			x.PIDs = append(x.PIDs, worker.PID)
		}
		list = append(list, x)
	}
	return list
}

// unforkable says why no launcher can fork workers of a Python script; of other commands none is expected to.
func unforkable(m *record.Mirror, w cluster.World) string {
	for _, member := range w.Members {
		if started := m.Node(member.Node).Ack(w.Job, w.Generation, w.Nonce).Started.Value; started.Unforkable != "" && !started.RunsNoScript() {
			return started.Unforkable
		}
	}
	return ""
}

// modelsOf are the models of those devices that are named.
func modelsOf(devices []cluster.Device, named []cluster.DeviceID) (models []string) {
	for _, d := range devices {
		if name := d.ModelName(); name != "" && slices.Contains(named, d.ID) && !slices.Contains(models, name) {
			models = append(models, name)
		}
	}
	return models
}

// prepared are the nodes that are asked to prepare the job's next generation.
func prepared(m *record.Mirror, job cluster.JobID) (list []api.Prepared) {
	for _, id := range m.NodeIDs() {
		node := m.Node(id)
		next, waits := asked(m, node, job)
		if !waits {
			continue
		}
		x := api.Prepared{Node: string(id)}
		if said := node.Ready[job]; said.Exists() && said.Value.Of(next) {
			x.Ready, x.Cold, x.Workers, x.MemoryBytes = said.Value.Cold == "", said.Value.Cold, said.Value.Workers, said.Value.Memory
		}
		list = append(list, x)
	}
	return list
}

// asked is what a node is asked to prepare of a job; false from that generation's start on, although
// the record stays until the next one is prepared.
func asked(m *record.Mirror, node *record.NodeView, job cluster.JobID) (next record.Next, waits bool) {
	have := node.Next[job]
	return have.Value, have.Exists() && have.Value.Generation > m.Job(job).State.Value.Generation
}

// progressOf takes the furthest report of the present generation, and before
// the first one the checkpoint that it resumed from, with what an earlier
// generation said of that very step. What was lost since is nowhere any more.
func progressOf(m *record.Mirror, v *record.JobView, about []cluster.NodeID) api.Progress {
	p := api.Progress{StepsTotal: v.Spec.Value.Steps}
	if c := v.Committed; c.Exists() {
		p.Step, p.Samples = c.Value.Step, c.Value.Samples
	}
	var newest record.JobProgress
	take := func(r record.JobProgress) {
		newer := cmp.Or(cmp.Compare(r.Generation, newest.Generation), cmp.Compare(r.Step, newest.Step))
		if r.Generation <= v.State.Value.Generation && (newer > 0 || newer == 0 && newest.Loss == nil) {
			newest = r
		}
	}
	for _, id := range about {
		r := m.Node(id).Progress.Value.Jobs[v.ID]
		if plan := v.Generation(r.Generation).Plan; !plan.Exists() || plan.Value.World.Nonce == r.Nonce {
			take(r)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(v.Generations)) {
		world := v.Generations[g].Plan.Value.World
		for _, member := range world.Members {
			if r, ok := m.Node(member.Node).Reported(v.ID, g, world.Nonce); ok {
				take(r)
			}
		}
	}
	if newest.Generation != 0 && (newest.Generation == v.State.Value.Generation || newest.Step == p.Step) {
		addReport(&p, newest, v.State.Value)
	}
	told := newest.BaseSteps
	if newest.Step > p.Step {
		told = 0 // of steps that were lost
	}
	recorded := v.Speed.Value
	if recorded.Step <= p.Step {
		told = max(told, float64(recorded.BaseSteps))
	}
	if worth := v.Spec.Value.BatchSize.BaseSteps(p.Step, told); worth > p.Step {
		p.BaseSteps = worth
	}
	if p.StepsTotal > 0 {
		f := min(1, float64(max(p.Step, p.BaseSteps))/float64(p.StepsTotal))
		p.Fraction = &f
	}
	return p
}

// problemsOf are what the nodes tell of the present generation and the one before, whose last save may be what is
// missing now; of a job that has ended, what they told of its last one.
func problemsOf(m *record.Mirror, v *record.JobView, about []cluster.NodeID) []api.Problem {
	before := cluster.Generation(1)
	if v.State.Value.Phase.Terminal() {
		before = 0
	}
	var list []api.Problem
	for _, id := range about {
		p, ok := m.Node(id).Progress.Value.Problems[v.ID]
		if ok && p.Generation+before >= v.State.Value.Generation {
			list = append(list, api.Problem{Node: string(id), Generation: uint64(p.Generation), Text: p.Text, At: p.At})
		}
	}
	return list
}

func addReport(p *api.Progress, r record.JobProgress, state record.State) {
	p.Generation = uint64(r.Generation)
	if r.Step >= p.Step { // a checkpoint may be newer than any report, and the loss of its step is unknown
		p.Step, p.Samples, p.Loss, p.Line = r.Step, r.Samples, r.Loss, r.Line
	}
	if state.Phase == cluster.Running && r.Generation == state.Generation {
		p.StepsPerSecond = r.StepsPerSecond
	}
	if !r.At.IsZero() {
		at := r.At
		p.At = &at
	}
}

func addRescales(s *api.JobStatus, v *record.JobView) {
	for _, g := range slices.Sorted(maps.Keys(v.Rescales)) {
		r := v.Rescales[g].Value
		s.Rescales = append(s.Rescales, api.Rescale{
			Generation: uint64(r.Generation), From: r.From, To: r.To, Why: r.Why.String(), Because: r.Why, At: r.At,
			SignalS: r.SignalS, SaveS: r.SaveS, WaitS: r.WaitS, CommitS: r.CommitS, StartS: r.StartS, OwnS: r.OwnS,
			ResumeStep: r.ResumeStep, LostSteps: r.LostSteps, Predicted: r.Predicted, Measured: v.Speed.Value.MeasuredGain(r),
		})
		if r.From != r.To {
			s.LastResize = &api.Resize{Generation: uint64(r.Generation), From: r.From, To: r.To, Why: r.Why.String(), Because: r.Why, At: r.At}
		}
	}
}

// checkpoints lists what was committed by step, also what was given up.
func checkpoints(v *record.JobView) []api.Checkpoint {
	all := map[int64]api.Checkpoint{}
	add := func(c record.Checkpoint, why reason.Reason) {
		all[c.Step] = api.Checkpoint{
			Step: c.Step, Generation: uint64(c.Generation), Samples: c.Samples, Dir: c.Dir, Bytes: c.Bytes, WorldSize: c.WorldSize,
			Committed: len(why) == 0 && v.Committed.Exists() && v.Committed.Value == c, Bad: why.String(), Because: why,
		}
	}
	for _, b := range v.Bad {
		add(b.Value.Checkpoint, b.Value.Reason)
	}
	for _, c := range v.Checkpoints { // of a step that was given up and saved again, before that deleted the record, the one that --from names
		add(c.Value, nil)
	}
	var list []api.Checkpoint
	for _, step := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[step])
	}
	return list
}

// failureOf returns the last failure; what the workers wrote is for their owner only.
func failureOf(m *record.Mirror, v *record.JobView, mine bool, about []cluster.NodeID) *api.Failure {
	f := v.State.Value.Failure
	if f == nil {
		return nil
	}
	x := &api.Failure{Kind: string(f.Kind), Reason: f.Reason, Rank: f.Rank, At: f.At}
	if mine {
		x.LogTail = f.LogTail
	}
	for _, id := range about {
		for jg, acks := range m.Node(id).Acks {
			if jg.Job != v.ID || !acks.Failed.Exists() || !acks.Failed.Value.At.Equal(f.At) || acks.Failed.Value.Rank != f.Rank {
				continue
			}
			x.Node = string(id)
			for _, e := range acks.Stopped.Value.Exits {
				if e.Rank == f.Rank {
					code := shellStatus(e)
					x.ExitCode = &code
				}
			}
		}
	}
	return x
}

func shellStatus(e record.Exit) int {
	if e.Signal != 0 {
		return signalBase + e.Signal
	}
	return e.Code
}

// exitCode is what following the job to its end comes to: 0 if it succeeded, the
// first failing worker's own status if that is known, 124 if its time limit has
// ended it, what its workers ended with if it was stopped, else 1. nil if it has
// not ended, or nothing is recorded any more of how.
func exitCode(m *record.Mirror, v *record.JobView, s api.JobStatus) *int {
	code := 1
	switch s.Phase {
	case cluster.Succeeded:
		code = 0
	case cluster.Refused:
		code = api.RefusedStatus
	case cluster.Failed:
		if s.Failure != nil && s.Failure.ExitCode != nil && *s.Failure.ExitCode != 0 {
			code = *s.Failure.ExitCode
		}
	case cluster.Stopped:
		if s.TimedOut {
			code = timedOutStatus
		} else if v.State.Value.Generation > 0 {
			return stoppedStatus(m, v.Generation(v.State.Value.Generation).Plan.Value.World)
		}
	case cluster.Queued, cluster.Starting, cluster.Running, cluster.Halting, cluster.Backoff, cluster.Held:
		return nil
	}
	return &code
}

// stoppedStatus is that of the first rank of a stopped generation that did not
// exit 0, or 0; 1 if not all of them are known to have exited.
func stoppedStatus(m *record.Mirror, w cluster.World) *int {
	if len(w.Members) == 0 {
		return nil
	}
	var exits []record.Exit
	for _, member := range w.Members {
		exits = append(exits, m.Node(member.Node).Ack(w.Job, w.Generation, w.Nonce).Stopped.Value.Exits...)
	}
	slices.SortFunc(exits, func(a, b record.Exit) int { return cmp.Compare(a.Rank, b.Rank) })
	code := 0
	if len(exits) < w.Processes() {
		code = 1
	}
	if i := slices.IndexFunc(exits, func(e record.Exit) bool { return shellStatus(e) != 0 }); i >= 0 {
		code = shellStatus(exits[i])
	}
	return &code
}
