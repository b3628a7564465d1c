package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

const (
	barWidth = 30
	// shownCheckpoints is how many of the newest checkpoints a page lists.
	shownCheckpoints = 8
)

// jobPage writes one job as a page; the first error ends the writing.
type jobPage struct {
	View
	w   io.Writer
	job api.JobStatus
	err error
}

// Job writes one job as a page.
func Job(w io.Writer, job api.JobStatus, p View) error {
	out := &jobPage{View: p, w: w, job: job}
	out.head()
	out.members()
	out.speeds()
	out.rescales()
	out.failure()
	out.checkpoints()
	return out.err
}

func (p *jobPage) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// field writes one line of the head; one without a text is left out.
func (p *jobPage) field(name, text string) {
	if text != "" {
		p.printf("  %s %s\n", p.Style.Paint(output.Faint, fmt.Sprintf("%-11s", name)), output.OneLine(text))
	}
}

func (p *jobPage) section(name string) { p.printf("\n%s\n", p.Style.Paint(output.Bold, name)) }

func (p *jobPage) table(t output.Table) {
	t.Indent = "  "
	if p.err == nil {
		p.err = t.Write(p.w, p.Style)
	}
}

func (p *jobPage) head() {
	j := p.job
	phase := p.Style.Paint(phaseColour(j.Phase), string(j.Phase))
	p.printf("%s  %s", p.Style.Paint(output.Bold, j.ID), phase)
	if j.Workers > 0 {
		p.printf("  %s", units.Count(j.Workers, "worker"))
	}
	if j.Generation > 0 {
		p.printf("  generation %d", j.Generation)
	}
	p.printf("\n")
	p.field("phase", fmt.Sprintf("%s since %s (%s)", j.Phase, p.clock(j.Since), p.ago(j.Since)))
	if j.WhyPending != "" {
		p.field("waits", whyOf(j))
	} else {
		p.field("why", j.Reason)
	}
	if j.Stopping {
		p.field("wanted", "its owner stops it")
	}
	if j.SaveUntil != nil {
		p.field("saves", "until "+p.clock(*j.SaveUntil)+" at most: it is killed then")
	}
	p.field("starts", p.startText(j.Start))
	if j.NextStart != nil {
		p.field("next start", p.clock(*j.NextStart))
	}
	if r := j.LastResize; r != nil {
		p.field("last resize", fmt.Sprintf("%d → %s at %s: %s", r.From, units.Count(r.To, "worker"), p.clock(r.At), r.Why))
	}
	p.progress()
	p.speedHead()
	for _, x := range p.job.Problems {
		p.field("problem", fmt.Sprintf("%s on %s, generation %d: %s", p.clock(x.At), x.Node, x.Generation, x.Text))
	}
	p.starts()
	p.deviceProblems()
	p.prepared()
	p.field("size", fmt.Sprintf("%s, %s", sizesText(j), batchText(j)))
	p.field("step", stepText(j))
	if j.Pinned {
		p.field("pinned", "keeps its size until it commits a checkpoint: its last halt saved nothing")
	}
	p.field("memory", memoryText(j))
	p.field("restarts", fmt.Sprintf("%d of %d", j.Restarts, j.MaxRestarts))
	if where := whereText(j.Where); where != "" {
		p.field("runs on", where)
	}
	for _, node := range slices.Sorted(maps.Keys(j.Excluded)) {
		p.field("excluded", node+": "+j.Excluded[node])
	}
	p.field("per worker", perWorkerText(j.PerWorker))
	if j.NoNewPrivs {
		p.field("privileges", "none but its owner's: setuid programs such as sudo give it no others")
	}
	p.field("owner", fmt.Sprintf("%s (uid %d)", j.Owner, j.UID))
	p.field("kind", j.Kind)
	p.field("command", strings.Join(j.Command, " "))
	p.field("workdir", j.Workdir)
	p.field("saves in", j.CheckpointDir)
	p.field("submitted", fmt.Sprintf("%s (%s ago)", p.clock(j.SubmittedAt), p.ago(j.SubmittedAt)))
	if j.Priority != 0 {
		p.field("priority", fmt.Sprint(j.Priority))
	}
	p.field("deadline", p.deadlineText(j))
	p.field("time limit", p.limitText(j))
	if j.ExitCode != nil {
		p.field("exit", fmt.Sprint(*j.ExitCode))
	}
}

// sizesText says how many workers a job may have.
func sizesText(j api.JobStatus) string {
	if len(j.Sizes) == 0 {
		return Range(j.MinWorkers, j.MaxWorkers, "worker")
	}
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(j.Sizes), " ", ", "), "[]")
	return "one of " + list + " workers"
}

// memoryText says which sizes are out because a worker had too little memory; empty if none is.
func memoryText(j api.JobStatus) string {
	if j.OutOfMemory == 0 {
		return ""
	}
	little := units.Count(j.OutOfMemory, "worker")
	if j.OutOfMemory > 1 {
		little += " or fewer"
	}
	if j.Ended {
		return "too little with " + little
	}
	return fmt.Sprintf("too little with %s, so it runs with more: a smaller --micro-batch would let it run with fewer", little)
}

// stepText says how its owner has declared that a step is made; empty if that is the script's alone.
func stepText(j api.JobStatus) string {
	var parts []string
	t := j.Training
	if t.MicroBatch > 0 {
		parts = append(parts, "a device takes "+units.Count(t.MicroBatch, "sample")+" at once")
	}
	if t.LogicalWorkers > 0 {
		parts = append(parts, units.Count(t.LogicalWorkers, "logical worker"))
	}
	if t.LRRule != "" {
		parts = append(parts, "learning rate by rule "+t.LRRule)
	}
	if t.LRWarmup > 0 {
		parts = append(parts, "changed in "+units.Count(t.LRWarmup, "step"))
	}
	return strings.Join(parts, ", ")
}

// perWorkerText says what each worker may use at most.
func perWorkerText(l cluster.Limits) string {
	var parts []string
	if l.MemoryBytes > 0 {
		parts = append(parts, units.Size(int64(l.MemoryBytes))+" of memory") //nolint:gosec // validated
	}
	if l.CPUs > 0 {
		what := " processors"
		if l.CPUs == 1 {
			what = " processor"
		}
		parts = append(parts, fmt.Sprintf("%g", l.CPUs)+what)
	}
	if parts == nil {
		return ""
	}
	return "at most " + strings.Join(parts, ", ")
}

// Range says a number of things that lies between two bounds.
func Range(low, high int, what string) string {
	if high > low {
		return fmt.Sprintf("%d to %s", low, units.Count(high, what))
	}
	return units.Count(low, what)
}

func (p *jobPage) progress() {
	g := p.job.Progress
	var parts []string
	if g.Fraction != nil {
		full := int(*g.Fraction * barWidth)
		parts = append(parts, fmt.Sprintf("[%s%s] %d%%", strings.Repeat("#", full), strings.Repeat("-", barWidth-full), int(*g.Fraction*100)))
	}
	step := fmt.Sprintf("step %d", g.Step)
	if g.BaseSteps > 0 {
		step += fmt.Sprintf(", worth %d", g.BaseSteps)
	}
	switch {
	case g.StepsTotal > 0:
		parts = append(parts, fmt.Sprintf("%s of %d", step, g.StepsTotal))
	case g.Step > 0:
		parts = append(parts, step)
	}
	switch {
	case g.Samples > 0:
		parts = append(parts, fmt.Sprintf("%d samples", g.Samples))
	case g.Samples < 0:
		parts = append(parts, "samples unknown")
	}
	if g.Loss != nil {
		parts = append(parts, fmt.Sprintf("loss %.4g", *g.Loss))
	}
	if !p.job.Ended && g.StepsPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%.3g steps/s", g.StepsPerSecond))
	}
	if !p.job.Ended && g.At != nil && len(parts) > 0 {
		parts = append(parts, "as reported "+p.ago(*g.At)+" ago")
	}
	p.field("progress", strings.Join(parts, ", "))
	p.field("read from", g.Line)
}

// starts says where in the script the workers had waited, node by node, or why they had not.
func (p *jobPage) starts() {
	var places []string
	nodes := map[string][]string{} // by place
	for _, m := range p.job.Members {
		if m.Cold != "" {
			p.field("cold start", fmt.Sprintf("on %s: %s", m.Node, m.Cold))
		}
		if !m.Warm || m.Parked == "" {
			continue
		}
		if nodes[m.Parked] == nil {
			places = append(places, m.Parked)
		}
		nodes[m.Parked] = append(nodes[m.Parked], m.Node)
	}
	for _, place := range places {
		p.field("warm start", fmt.Sprintf("on %s, from %s", strings.Join(nodes[place], ", "), place))
	}
}

// deviceProblems are those of the job's own devices.
func (p *jobPage) deviceProblems() {
	for _, m := range p.job.Members {
		if record.DevicesOpen(m.DeviceFiles) {
			p.field("device", fmt.Sprintf("files on %s: %s", m.Node, m.DeviceFiles))
		}
		for _, r := range m.Readings {
			if what := warnings(&r); what != nil {
				p.field("device", fmt.Sprintf("%s on %s: %s", r.ID, m.Node, strings.Join(what, "; ")))
			}
		}
	}
}

// prepared says what waits for the next generation.
func (p *jobPage) prepared() {
	var parts []string
	for _, n := range p.job.Next {
		switch {
		case n.Cold != "":
			parts = append(parts, fmt.Sprintf("cold on %s (%s)", n.Node, n.Cold))
		case !n.Ready:
			parts = append(parts, "being prepared on "+n.Node)
		default:
			var takes []string
			if n.Workers > 1 {
				takes = append(takes, fmt.Sprintf("%d processes", n.Workers))
			}
			if n.MemoryBytes > 0 {
				takes = append(takes, units.Size(n.MemoryBytes))
			}
			warm := "warm on " + n.Node
			if len(takes) > 0 {
				warm += " (" + strings.Join(takes, ", ") + ")"
			}
			parts = append(parts, warm)
		}
	}
	if p.job.Unforkable != "" {
		parts = append(parts, "cold: "+p.job.Unforkable)
	}
	p.field("next start", strings.Join(parts, ", "))
}

func (p *jobPage) members() {
	if len(p.job.Members) == 0 {
		return
	}
	p.section("members")
	t := output.Table{Head: []string{"NODE", "RANKS", "STATE", "CONTAINMENT", "PIDS", "BUSY", "MEMORY", "MODEL", "DEVICES"}}
	for _, m := range p.job.Members {
		state := "starting"
		switch {
		case m.Lost:
			state = "lost"
		case m.Stopped:
			state = "stopped"
		case m.Warm:
			state = "started warm"
		case m.Cold != "":
			state = "started cold"
		case m.Started:
			state = "started"
		}
		ranks := fmt.Sprint(m.FirstRank)
		if n := m.Processes; n > 1 {
			ranks = fmt.Sprintf("%d-%d", m.FirstRank, m.FirstRank+n-1)
		}
		var l load
		for _, r := range m.Readings {
			l.add(&r, 0)
		}
		held := output.OrDash(m.Containment)
		if m.ProcessLimit > 0 {
			held += fmt.Sprintf(", %d processes", m.ProcessLimit)
		}
		t.Add(m.Node, ranks, state, held, output.OrDash(strings.Trim(fmt.Sprint(m.PIDs), "[]")),
			l.share(), l.memoryText(), output.OrDash(m.Model), strings.Join(m.Devices, " "))
	}
	p.table(t)
}

func (p *jobPage) rescales() {
	if len(p.job.Rescales) == 0 {
		return
	}
	p.section("rescales (seconds)")
	t := output.Table{Head: []string{"GEN", "AT", "FROM", "TO", "OVERHEAD", "SIGNAL", "SAVE", "WAIT", "COMMIT", "START", "RESUMED", "LOST", "GAIN", "WHY"}}
	part := func(s float64) string {
		if s < 0 {
			return "?"
		}
		return fmt.Sprintf("%.2f", s)
	}
	for _, r := range p.job.Rescales {
		resumed := "from 0"
		if r.ResumeStep >= 0 {
			resumed = fmt.Sprintf("step %d", r.ResumeStep)
		}
		lost := fmt.Sprint(r.LostSteps)
		if r.LostSteps < 0 {
			lost = "?"
		}
		t.Add(fmt.Sprint(r.Generation), p.clock(r.At), fmt.Sprint(r.From), fmt.Sprint(r.To), part(r.OwnS),
			part(r.SignalS), part(r.SaveS), part(r.WaitS), part(r.CommitS), part(r.StartS), resumed, lost, gainOf(r.Measured, r.Predicted), r.Why)
	}
	p.table(t)
}

func (p *jobPage) failure() {
	f := p.job.Failure
	if f == nil {
		return
	}
	p.section("last failure")
	p.printf("  %s %s\n", p.clock(f.At), p.Style.Paint(output.Red, output.OneLine(failureText(*f))))
	for _, line := range f.LogTail {
		p.printf("  %s %s\n", p.Style.Paint(output.Faint, "|"), output.Plain(line))
	}
}

func (p *jobPage) checkpoints() {
	if len(p.job.Checkpoints) == 0 {
		return
	}
	p.section("checkpoints")
	t := output.Table{Head: []string{"STEP", "GEN", "WORLD", "SIZE", "STATE", "FOLDER"}}
	list, why := p.job.Checkpoints, []string{} // reasons are too long for a column before the folders
	older := max(0, len(list)-shownCheckpoints)
	for _, c := range list[older:] {
		state := "kept"
		switch {
		case c.Bad != "":
			state = "given up"
			said := c.Bad
			if user := c.Because.Arg(reason.CheckpointGivenUpBy, "user"); user != "" {
				said = "by " + user
			}
			why = append(why, fmt.Sprintf("step %d, generation %d: %s", c.Step, c.Generation, said))
		case c.Committed:
			state = "newest"
		}
		t.Add(fmt.Sprint(c.Step), fmt.Sprint(c.Generation), fmt.Sprint(c.WorldSize), units.Size(c.Bytes), state, c.Dir)
	}
	p.table(t)
	for _, text := range why {
		p.printf("  given up: %s\n", output.OneLine(text))
	}
	if older > 0 {
		p.printf("  and %d older: -o json lists all\n", older)
	}
}
