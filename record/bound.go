package record

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

func (s State) cut(most int) any {
	s.Reason, s.ReasonText = worded(s.Reason, s.ReasonText, most)
	s.Waits, s.WaitsText = worded(s.Waits, s.WaitsText, most)
	s.Cold = Cut(s.Cold, most)
	if s.Failure != nil {
		f := cutWords(*s.Failure, most)
		s.Failure = &f
	}
	if s.Suspect != nil {
		suspect := *s.Suspect
		suspect.Reason = Cut(suspect.Reason, most)
		s.Suspect = &suspect
	}
	if n := len(s.Excluded); n > 0 {
		each := min(most, max(2*len(cutMark), maxExcluded/n)) // a cluster may have thousands of nodes
		s.Excluded = maps.Clone(s.Excluded)
		for node, why := range s.Excluded {
			s.Excluded[node] = Cut(why, each)
		}
	}
	return s
}

func (f Failed) cut(most int) any {
	f.Missing = f.Missing || readMissing(f)
	f.Reason = Cut(f.Reason, most)
	left := min(maxLogTail, maxLogTail/MaxReason*most)
	var tail []string
	for _, line := range slices.Backward(f.LogTail) { // the last lines are the best
		line = Cut(line, most)
		if left -= len(line); left < 0 {
			break
		}
		tail = append(tail, line)
	}
	slices.Reverse(tail)
	f.LogTail = tail
	return f
}

func (s Started) cut(most int) any {
	s.Containment, s.DeviceFiles, s.Parked, s.Cold = Cut(s.Containment, most), Cut(s.DeviceFiles, most), Cut(s.Parked, most), Cut(s.Cold, most)
	return s
}

func (p Plan) cut(most int) any {
	p.Why, p.WhyText = worded(p.Why, p.WhyText, most)
	p.Cold = Cut(p.Cold, most)
	return p
}

func (h Halt) cut(most int) any {
	h.Why, h.WhyText = worded(h.Why, h.WhyText, most)
	return h
}

func (b BadCheckpoint) cut(most int) any {
	b.Reason, b.ReasonText = worded(b.Reason, b.ReasonText, most)
	return b
}

func (r Rescale) cut(most int) any {
	r.Why, r.WhyText = worded(r.Why, r.WhyText, most)
	return r
}

func (d Decision) cut(most int) any {
	d.Moves = slices.Clone(d.Moves[:min(len(d.Moves), maxMoves)])
	for i := range d.Moves {
		d.Moves[i].Why = Cut(d.Moves[i].Why, min(most, 2*SmallReason))
	}
	return d
}

func (i Inventory) cut(most int) any {
	i.Problem, i.DeviceFiles = Cut(i.Problem, most), Cut(i.DeviceFiles, most)
	i.Location, i.TopologyProblem = Cut(i.Location, most), Cut(i.TopologyProblem, most)
	i.Devices = slices.Clone(i.Devices)
	for k := range i.Devices {
		i.Devices[k].Problem = Cut(i.Devices[k].Problem, most)
		i.Devices[k].Model = Cut(i.Devices[k].Model, min(most, cluster.MaxModelBytes))
		// One that is longer is no name, and stays none.
		i.Devices[k].Group, i.Devices[k].NUMA = Cut(i.Devices[k].Group, cluster.MaxNameBytes+1), Cut(i.Devices[k].NUMA, cluster.MaxNameBytes+1)
	}
	return i
}

func (c Cordon) cut(most int) any {
	c.Reason = Cut(c.Reason, most)
	return c
}

func (p Paused) cut(most int) any {
	p.Why = Cut(p.Why, most)
	return p
}

func (r Request) cut(most int) any {
	r.Reason = Cut(r.Reason, most)
	return r
}

func (p Progress) cut(most int) any {
	p.Problems = maps.Clone(p.Problems)
	for job, problem := range p.Problems {
		problem.Lock = problem.Lock || readLock(problem)
		problem.Text = Cut(problem.Text, most)
		p.Problems[job] = problem
	}
	cloned := false
	for job, reported := range p.Jobs {
		if possible := reported.possible(); possible != reported {
			if !cloned {
				p.Jobs, cloned = maps.Clone(p.Jobs), true
			}
			p.Jobs[job] = possible
		}
	}
	return p
}

func (s Stopped) cut(int) any {
	if s.Progress != nil {
		p := s.Progress.possible()
		s.Progress = &p
	}
	return s
}

// possible returns a report with what cannot be taken out of it: a node may be told
// anything by the scripts that run there.
func (p JobProgress) possible() JobProgress {
	p.Step, p.Samples = min(max(p.Step, 0), MaxCount), min(max(p.Samples, -1), MaxCount)
	p.BaseSteps = min(max(p.BaseSteps, 0), MaxCount)
	if !SoundNoise(p.NoiseScale) {
		p.NoiseScale = 0
	}
	p.Losses, p.BadLosses = min(max(p.Losses, 0), MaxCount), min(max(p.BadLosses, 0), MaxCount)
	if !(math.Abs(p.LossSum) <= MaxLoss*float64(p.Losses)) {
		p.LossSum, p.Losses = 0, 0
	}
	p.Line = Cut(p.Line, maxProgressLine)
	if p.FirstStep <= 0 || p.FirstStep > p.Step || p.FirstAt.IsZero() || p.FirstAt.After(p.At) {
		p.FirstStep, p.FirstAt = 0, time.Time{}
	}
	for _, rate := range []*float64{&p.StepsPerSecond, &p.SamplesPerSecond} {
		if !(*rate >= 0 && *rate <= maxRate) {
			*rate = 0
		}
	}
	return p
}

func (e Event) cut(most int) any {
	e.Why, e.WhyText = worded(e.Why, e.WhyText, min(most, MaxEventWhy))
	return e
}

func (c Checkpoint) check() error {
	return errors.Join(word("dir", cluster.MaxPathBytes, c.Dir), word("digest", maxWord, c.ManifestSHA256))
}

func (a Alive) check() error {
	return word("address", maxWord, a.Addr, a.Gossip, a.API, a.Incarnation, a.BootID, a.Version)
}

func (i Inventory) check() error {
	faults := []error{word("address", maxWord, i.Addr)}
	for _, d := range i.Devices {
		faults = append(faults, word("device", maxWord, d.ID))
	}
	return errors.Join(faults...)
}

func (r Request) check() error {
	return errors.Join(word("user", maxWord, r.Owner.User), word("job", maxWord, r.Job), word("node", maxWord, r.Node))
}
