package coordinator_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// describe writes a transaction in one line: its verb, the compares beyond
// leader and state, and what it writes.
func describe(t record.Txn, now time.Time) string {
	verb, _, _ := strings.Cut(t.ID, " #")
	var parts []string
	for _, c := range t.If {
		if short := shortKey(c.Key); strings.HasSuffix(short, "/alive") {
			parts = append(parts, "if absent "+short)
		}
	}
	for _, op := range t.Then {
		if op.Key == record.GrantedKey {
			continue // whenever grants change
		}
		parts = append(parts, describeOp(op, now))
	}
	return fmt.Sprintf("txn %s: %s", verb, strings.Join(parts, " | "))
}

var ranWords = regexp.MustCompile(` ran=\S+`)

// describe leaves out how long jobs have run where the story is not about that.
func (l *lab) describe(t record.Txn) string {
	text := describe(t, l.now)
	if !l.limited {
		text = ranWords.ReplaceAllString(text, "")
	}
	return text
}

// shortKey leaves away what the line says anyway.
func shortKey(key string) string {
	key = strings.TrimPrefix(key, record.Root)
	key = strings.TrimPrefix(key, "nodes/")
	if rest, ok := strings.CutPrefix(key, "jobs/"); ok {
		_, key, _ = strings.Cut(rest, "/")
	}
	return strings.ReplaceAll(key, "gen/0000000", "g")
}

func describeOp(op record.Op, now time.Time) string {
	key := shortKey(op.Key)
	if op.Delete {
		if op.Prefix {
			key += "*"
		}
		return "-" + key
	}
	last := key[strings.LastIndex(key, "/")+1:]
	switch {
	case key == "state":
		return describeState(read[record.State](op), now)
	case last == "plan":
		return key + describePlan(read[record.Plan](op))
	case last == "halt":
		h := read[record.Halt](op)
		s := fmt.Sprintf("%s save=%t", key, h.Save)
		if h.Save {
			s += fmt.Sprintf(" for=%s", h.Deadline.Sub(now))
		}
		if h.StopAfter != nil {
			s += fmt.Sprintf(" stop_after=%d", *h.StopAfter)
		}
		if h.Terminate {
			s += " terminate"
		}
		return s
	case strings.Contains(key, "/grants/"):
		g := read[record.Grant](op)
		return fmt.Sprintf("%s g%d %v", key, g.Generation, g.Devices)
	case strings.Contains(key, "/next/"):
		return fmt.Sprintf("%s g%d workers=%d", key, read[record.Next](op).Generation, read[record.Next](op).Workers)
	case strings.Contains(key, "/fence/"):
		return fmt.Sprintf("%s waited=%dms", key, read[record.Fence](op).WaitedMS)
	case last == "cordon":
		c := read[record.Cordon](op)
		return fmt.Sprintf("%s %q drain=%t down=%t", key, c.Reason, c.Drain, c.Down)
	case key == "wanted":
		w := read[record.Wanted](op)
		s := fmt.Sprintf("wanted run=%t", w.Run)
		if w.Now {
			s += " now"
		}
		if w.MinWorkers+w.MaxWorkers > 0 {
			s += fmt.Sprintf(" workers=%d..%d", w.MinWorkers, w.MaxWorkers)
		}
		if w.TimeLimit > 0 {
			s += fmt.Sprintf(" limit=%s", w.TimeLimit)
		}
		if w.DiscardedUpTo > 0 {
			s += fmt.Sprintf(" forsaken=%d", w.DiscardedUpTo)
		}
		return s
	case key == "checkpoint/committed":
		c := read[record.Checkpoint](op)
		return fmt.Sprintf("committed step=%d gen=%d", c.Step, c.Generation)
	case op.Key == record.PromisedKey:
		return describePromises(read[record.Promises](op))
	case key == "spec" && read[record.Submitted](op).Answer != nil:
		a := read[record.Submitted](op).Answer
		if a.Late() {
			return fmt.Sprintf("spec promised=late by=+%s", a.By.Sub(dawn))
		}
		return fmt.Sprintf("spec promised=%t", a.Promised)
	case strings.HasPrefix(key, "events/"):
		return describeEvent(read[record.Event](op))
	case strings.HasPrefix(key, "rescales/"):
		r := read[record.Rescale](op)
		wait := ""
		if r.WaitS > 0 {
			wait = fmt.Sprintf(" wait=%gs", r.WaitS)
		}
		return fmt.Sprintf("rescale %d→%d signal=%gs save=%gs%s commit=%gs start=%gs own=%gs resume=%d lost=%d",
			r.From, r.To, r.SignalS, r.SaveS, wait, r.CommitS, r.StartS, r.OwnS, r.ResumeStep, r.LostSteps)
	case key == "speed":
		return describeSpeed(read[record.Speed](op), now)
	case strings.HasPrefix(key, "kinds/"):
		k := read[record.JobKind](op)
		took := ""
		for _, t := range k.Lengths {
			took += fmt.Sprintf(" took=%d/%gs", t.Steps, t.WorkS)
		}
		if k.NoiseScale > 0 {
			took += fmt.Sprintf(" noise=%g", k.NoiseScale)
		}
		return fmt.Sprintf("%s jobs=%d%s ends=%d%s", key, k.Jobs, describePoints(k.Points, k.Starts), len(k.Ends), took)
	case key == "allocation/last":
		var moves []string
		for _, m := range read[record.Decision](op).Moves {
			moves = append(moves, fmt.Sprintf("%s %d→%d", m.Job, m.From, m.To))
		}
		return strings.Join(moves, ", ")
	}
	return key
}

func describeEvent(e record.Event) string {
	out := fmt.Sprintf("event %d %s", e.Seq, e.Kind)
	for _, part := range []struct{ name, text string }{
		{"", string(e.Job)}, {"", string(e.Node)}, {"by=", e.By},
	} {
		if part.text != "" {
			out += " " + part.name + part.text
		}
	}
	if e.Rank != nil {
		out += fmt.Sprintf(" rank=%d", *e.Rank)
	}
	if e.To > 0 {
		out += fmt.Sprintf(" %d→%d in %gs", e.From, e.To, e.Seconds)
	}
	if e.Predicted > 0 {
		out += fmt.Sprintf(" predicted=%.2f", e.Predicted)
	}
	if e.Measured > 0 {
		out += fmt.Sprintf(" measured=%.2f", e.Measured)
	}
	if len(e.Why) > 0 {
		out += fmt.Sprintf(" %q", e.Why)
	}
	return out
}

func describeState(s record.State, now time.Time) string {
	out := fmt.Sprintf("%s g%d %q", s.Phase, s.Generation, s.Why())
	if s.Ran > 0 {
		out += fmt.Sprintf(" ran=%s", s.Ran)
	}
	if s.Restarts > 0 {
		out += fmt.Sprintf(" restarts=%d", s.Restarts)
	}
	if s.Retries > 0 {
		out += fmt.Sprintf(" retries=%d", s.Retries)
	}
	if s.RoomWaits > 0 {
		out += fmt.Sprintf(" room_waits=%d", s.RoomWaits)
	}
	if !s.Next.IsZero() {
		out += fmt.Sprintf(" next=+%s", s.Next.Sub(now))
	}
	if s.Suspect != nil {
		out += fmt.Sprintf(" suspect=%d@%s", s.Suspect.Step, s.Suspect.Node)
	}
	if s.Pinned {
		out += " pinned"
	}
	if len(s.Excluded) > 0 {
		out += fmt.Sprintf(" excluded=%v", s.Excluded)
	}
	if len(s.Passing) > 0 {
		out += fmt.Sprintf(" passing=%v", s.Passing)
	}
	return out
}

// usualBatch is that of a story's job which states none.
const usualBatch = 64

func describePlan(p record.Plan) string {
	var s strings.Builder
	for _, m := range p.World.Members {
		fmt.Fprintf(&s, " %s%v@%d", m.Node, m.Devices, m.FirstRank)
	}
	fmt.Fprintf(&s, " %s", p.World.Master)
	if b := p.World.BatchSize; b != usualBatch {
		fmt.Fprintf(&s, " batch=%d", b)
	}
	if p.Resume != nil {
		fmt.Fprintf(&s, " resume=%d", p.Resume.Step)
		if p.Doubted {
			s.WriteString(" doubted")
		}
	}
	if p.Cold != "" {
		s.WriteString(" cold")
	}
	if n := p.World.Nonce; n != "" {
		s.WriteString(" nonce=" + n)
	}
	return s.String()
}

func read[T any](op record.Op) T {
	var v T
	if err := json.Unmarshal(op.Value, &v); err != nil {
		panic(fmt.Sprintf("%s does not decode: %v", op.Key, err))
	}
	return v
}

// describePromises writes who was promised how many devices from which slot on.
func describePromises(p record.Promises) string {
	parts := []string{"promised from=+" + p.Origin.Sub(dawn).String()}
	for _, id := range slices.Sorted(maps.Keys(p.Jobs)) {
		j := p.Jobs[id]
		name, _, _ := strings.Cut(string(id), "-")
		text := name + ":"
		for _, r := range j.Profile {
			text += fmt.Sprintf(" %d@%d", r.Devices, r.From)
		}
		if j.Broken != "" {
			text += " broken"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
