package run

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/record"
)

const (
	// keptSteps is how many steps' saves a report holds: one being confirmed, the
	// one before, and some for an agent that was away. An older one has been
	// superseded by then.
	keptSteps = 4
	// progressEvery is how often a report goes out for progress alone.
	progressEvery = time.Second
	// clockSet is by how much a clock differs from what it was if it has been set; less is its drift.
	clockSet = time.Second
)

// Finished is a rank's word on how far it is.
type Finished struct {
	Step    int64    `json:"step"`    // optimiser steps finished
	Samples int64    `json:"samples"` // consumed since the start of training; -1 = unknown
	Loss    *float64 `json:"loss"`
	BadLoss bool     `json:"loss_is_no_number"` // it told one that is NaN or infinite
	Noise   float64  `json:"noise_scale"`       // see record.JobProgress.NoiseScale
	Base    float64  `json:"base_steps"`        // and BaseSteps
	Age     float64  `json:"age"`               // how many seconds ago the step was finished: 0 but for a word that the SDK kept back
	Line    string   `json:"-"`                 // see record.JobProgress.Line
}

// said is what ranks have said of their progress.
type said struct {
	losses  losses
	due     bool                // progress waits for its next second
	bySDK   bool                // ranks say by the SDK how far they are: their lines do not count
	sent    int64               // when progress last went out
	at      time.Time           // of the newest, with its monotonic time
	first   *record.JobProgress // the first one of a finished step, to measure from
	firstAt time.Time           // its moment, by the clock as it is set now
}

// losses are those that the node's ranks have told in the generation. One that is beyond
// record.MaxLoss would hide all others in the sum, and counts as none.
type losses struct {
	sum       float64
	told, bad int64
}

func (l *losses) add(f Finished) {
	switch {
	case f.Loss != nil && math.Abs(*f.Loss) <= record.MaxLoss:
		l.sum += *f.Loss
		l.told++
	case f.Loss != nil || f.BadLoss:
		l.bad++
	}
}

// BySDK hears that ranks say by the SDK how far they are: what lines have said is forgotten.
func (r *reporting) BySDK() {
	if r.order.Progress != "" && !r.said.bySDK {
		r.Report.Progress, r.said.first, r.said.losses = nil, nil, losses{}
		r.problem("")
	}
	r.said.bySDK = true
}

// ByLine hears what a rank has printed of its progress, nil if nothing new, and what is wrong with its lines. matched:
// some of them were understood. Lines do not count where an SDK reports.
func (r *reporting) ByLine(word *Finished, matched bool, problem string, now time.Time) {
	if r.said.bySDK {
		return
	}
	if word != nil {
		r.Progressed(*word, now)
	}
	if matched || r.Report.Progress == nil { // another rank's lines may well match
		r.problem(problem)
	}
}

func (r *reporting) problem(what string) {
	if r.Report.ProgressProblem != what {
		r.Report.ProgressProblem, r.keep = what, true
	}
}

// Progressed notes how far a rank is. The node is as far as its first rank to say so:
// of a later one's word on the same step only what the first left out is news.
func (r *reporting) Progressed(f Finished, now time.Time) {
	if f.Step < 0 || f.Step > record.MaxCount || f.Samples > record.MaxCount {
		return
	}
	p := r.Report.Progress
	r.said.losses.add(f)
	if p != nil && f.Step <= p.Step {
		if f.Step == p.Step && (p.Loss == nil && f.Loss != nil || p.NoiseScale == 0 && f.Noise > 0) {
			next := *p
			next.LossSum, next.Losses, next.BadLosses = r.said.losses.sum, r.said.losses.told, r.said.losses.bad
			next.Loss, next.NoiseScale, next.BaseSteps = cmp.Or(p.Loss, f.Loss), cmp.Or(p.NoiseScale, f.Noise), cmp.Or(p.BaseSteps, f.Base)
			r.Report.Progress, r.said.due = &next, true
		}
		return
	}
	next := &record.JobProgress{
		Generation: r.order.World.Generation, Step: f.Step, Samples: max(f.Samples, -1), Loss: f.Loss, NoiseScale: f.Noise, BaseSteps: f.Base, At: now, Line: f.Line,
		LossSum: r.said.losses.sum, Losses: r.said.losses.told, BadLosses: r.said.losses.bad,
	}
	if p != nil { // not before the last report, whatever the script says
		age := time.Duration(min(max(f.Age, 0), next.At.Sub(r.said.at).Seconds()) * float64(time.Second))
		next.At = next.At.Add(-age)
	}
	r.said.at = next.At
	r.measure(next)
	r.Report.Progress, r.said.due = next, true
}

// measure adds to a report how fast the generation is, from its first finished step on.
// A script may report the step that it begins with: nothing is finished then.
func (r *reporting) measure(p *record.JobProgress) {
	if r.said.first == nil {
		begin := int64(0)
		if r.order.Resume != nil {
			begin = r.order.Resume.Step
		}
		if p.Step == 0 || p.Step == begin {
			return
		}
		r.said.first = &record.JobProgress{Step: p.Step, Samples: p.Samples, At: p.At}
	}
	first := r.said.first
	took := p.At.Sub(first.At) // by the monotonic clock
	// Where the clock was set since, the moment moves with it, so that it stays as long ago as it is.
	if at := p.At.Round(0).Add(-took); r.said.firstAt.Sub(at).Abs() > clockSet {
		r.said.firstAt = at
	}
	p.FirstStep, p.FirstAt = first.Step, r.said.firstAt
	if took > 0 {
		p.StepsPerSecond = float64(p.Step-first.Step) / took.Seconds()
		if first.Samples >= 0 && p.Samples > first.Samples {
			p.SamplesPerSecond = float64(p.Samples-first.Samples) / took.Seconds()
		}
	}
}

// stepProgress lets progress into a report when one is due for it.
func (s *State) stepProgress(f *Facts) {
	if !s.said.due {
		return
	}
	if due := s.said.sent + int64(progressEvery); f.Now < due {
		s.at(due)
		return
	}
	s.said.due, s.said.sent, s.tell = false, f.Now, true
}

// Saved notes a rank's save: ascending by step, then rank.
func (r *reporting) Saved(save Save) {
	saves := slices.DeleteFunc(slices.Clone(r.Report.Saves), func(o Save) bool { return o.Step == save.Step && o.Rank == save.Rank })
	saves = append(saves, save)
	slices.SortFunc(saves, func(a, b Save) int { return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Rank, b.Rank)) })
	steps := 1
	for i := len(saves) - 1; i > 0; i-- {
		if saves[i].Step != saves[i-1].Step {
			if steps++; steps > keptSteps {
				saves = saves[i:]
				break
			}
		}
	}
	r.Report.Saves, r.keep = saves, true
}
