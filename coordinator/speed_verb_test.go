package coordinator_test

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// reportEvery is how often a story's nodes write their progress.
const reportEvery = 10 * time.Second

// train j for=2m rate=20 [n1] [boot=8s] [clock=2h] [noise=640] [base=9000] [loss=0.001]: its members report while time passes; the first of
// a generation after boot; their clocks are ahead.
func (l *lab) train(w words) error {
	total, rate, boot := w.duration("for", time.Minute), w.float("rate"), w.duration("boot", 0)
	if boot > 0 {
		l.advance(boot)
		l.report(w, 0)
		total -= boot
	}
	for total > 0 {
		d := min(total, reportEvery)
		l.advance(d)
		l.report(w, int64(rate*d.Seconds()))
		total -= d
	}
	return nil
}

// report writes that the members named have done so many steps more.
func (l *lab) report(w words, more int64) {
	id, g, world, nodes := l.target(w)
	at := l.now.Add(w.duration("clock", 0))
	for _, n := range nodes {
		all := recorded[record.Progress](l.mem, record.ProgressKey(n))
		p, ok := all.Jobs[id]
		if !ok || p.Generation != g {
			first := int64(0)
			if r := recorded[record.Plan](l.mem, record.PlanKey(id, g)).Resume; r != nil {
				first = r.Step
			}
			p = record.JobProgress{Generation: g, Step: first + 1, FirstStep: first + 1, FirstAt: at, Samples: -1, Nonce: world.Nonce}
		}
		p.Step, p.At = p.Step+more, at
		p.NoiseScale = w.float("noise")
		if base := w.float("base"); base > 0 {
			p.BaseSteps = base
		}
		p = withLosses(w, p, more)
		if all.Jobs == nil {
			all.Jobs = map[cluster.JobID]record.JobProgress{}
		}
		all.Jobs[id] = p
		l.commit(record.Put(record.ProgressKey(n), all))
	}
	l.watch()
}

// withLosses adds the losses of ten reports: 2·e^(−loss·step), or what are no numbers.
func withLosses(w words, p record.JobProgress, steps int64) record.JobProgress {
	switch text := w.text("loss", ""); {
	case text == "" || steps == 0:
	case text == "nan":
		p.BadLosses += 10
	default:
		p.LossSum += 10 * 2 * math.Exp(-w.float("loss")*float64(p.Step))
		p.Losses += 10
	}
	return p
}

// forecasts: what the next decision is told of jobs is shown.
func (l *lab) withForecasts(words) error {
	l.forecasts = true
	return nil
}

func (l *lab) sayForecasts(in allocator.Input) {
	if !l.forecasts {
		return
	}
	l.forecasts = false
	for _, j := range in.Jobs {
		work := "unknown"
		if j.Work.Known {
			work = j.Work.Left.Round(time.Second).String()
		}
		speeds := "default"
		if j.Speeds != nil {
			speeds = rounded(j.Speeds)
		}
		alike := ""
		if j.Alike != nil {
			alike = fmt.Sprintf(" alike=%v", j.Alike)
		}
		batches := ""
		if j.Batches != nil {
			batches = fmt.Sprintf(" batches=%v", j.Batches)
		}
		if j.Staying > 0 {
			batches += fmt.Sprintf(" staying=%.2f", j.Staying)
		}
		if j.Fastest != nil {
			batches += fmt.Sprintf(" samples=%s of %v", rounded(j.Fastest.Speeds), j.Fastest.Batches)
		}
		if j.Loss != nil {
			batches += strings.TrimSuffix(fmt.Sprintf(" falls=%.3f %q", j.Loss.Fall, j.Loss.Flat), ` ""`)
		}
		for _, m := range j.Models {
			batches += fmt.Sprintf(" %s×%.2f", m.Model, m.Rate)
		}
		l.say("  told %s left=%s%s speeds=%s%s starts=%v", j.ID, work, alike, speeds, batches, j.StartCosts)
	}
}

func rounded(list []float64) string {
	var parts []string
	for _, x := range list {
		parts = append(parts, fmt.Sprintf("%.2f", x))
	}
	return strings.Join(parts, ",")
}

func describeSpeed(s record.Speed, now time.Time) string {
	out := "speed" + describePoints(s.Points, s.Starts)
	if p := s.Prediction; p != nil {
		out += fmt.Sprintf(" ends=+%s (+%s to +%s)", p.End.Sub(now).Round(time.Second), p.Low.Sub(now).Round(time.Second), p.High.Sub(now).Round(time.Second))
	}
	if g := s.Goodput(); g > 0 {
		out += fmt.Sprintf(" goodput=%.2f", g)
	}
	if n := len(s.Losses); n > 0 {
		out += fmt.Sprintf(" losses=%.3g…%.3g*%d", s.Losses[0].Mean, s.Losses[n-1].Mean, n)
	}
	if s.LossFlat != "" {
		out += fmt.Sprintf(" flat=%q", s.LossFlat)
	}
	if s.Problem != "" {
		out += fmt.Sprintf(" %q", s.Problem)
	}
	return out
}

func describePoints(points []record.SpeedPoint, starts []record.StartPoint) (out string) {
	for _, p := range points {
		out += fmt.Sprintf(" %d@%d=%.4g/s*%d", p.Workers, p.Nodes, p.StepsPerSecond, p.Windows)
	}
	for _, p := range starts {
		out += fmt.Sprintf(" start(%d)=%.3gs", p.Workers, p.Seconds)
	}
	return out
}
