package sim

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// onTwo is a job that is so many times as fast on a v100 as on a k80.
func onTwo(id string, submit, work time.Duration, times float64) Job {
	j := elastic(id, submit, work, 1)
	j.On = map[string]OnModel{"k80": {Rate: 1, Speed: Speed{1}}, "v100": {Rate: times, Speed: Speed{1}}}
	return j
}

// A job is as fast as its devices are, whether nodes tell of their models or not, and decisions
// that are told use the faster ones.
func TestJobsAreAsFastAsTheirModels(t *testing.T) {
	cfg := Config{
		Nodes: 2, DevicesPerNode: 1, Models: []string{"k80", "v100"}, Policy: byName(t, "flowtime"), Interval: time.Minute, RescaleCost: 30 * s,
		Jobs: []Job{onTwo("a", 0, time.Hour, 4)},
	}
	for _, c := range []struct {
		name  string
		know  Know
		blind bool
		want  time.Duration
	}{
		{"known", KnowAll, false, 30*s + 15*time.Minute},
		{"not told", KnowAll, true, 30*s + time.Hour},
	} {
		cfg.Know, cfg.Blind = c.know, c.blind
		r, log := run(t, cfg)
		if got := r.Jobs[0].End; got < c.want || got > c.want+time.Second {
			t.Errorf("%s: ends at %v, want %v\n%s", c.name, got, c.want, strings.Join(log, "\n"))
		}
	}
}

// Where speeds are measured, jobs of a kind that was on both models go where they gain, and those that
// gain less make room.
func TestMeasuredModelsAreUsed(t *testing.T) {
	cfg := Config{Nodes: 2, DevicesPerNode: 1, Models: []string{"k80", "v100"}, Policy: byName(t, "flowtime"), Interval: time.Minute, RescaleCost: 5 * s, Know: KnowSteps}
	for i := range 24 {
		j := onTwo(string(rune('a'+i)), time.Duration(i)*15*time.Minute, 20*time.Minute, []float64{8, 1.1, 1.1}[i%3])
		j.Command = []string{"train", []string{"steep", "flat", "flat"}[i%3]}
		cfg.Jobs = append(cfg.Jobs, j)
	}
	mean := func() (sum time.Duration) {
		r, _ := run(t, cfg)
		for i, o := range r.Jobs {
			sum += o.End - cfg.Jobs[i].Submit
		}
		return sum / time.Duration(len(cfg.Jobs))
	}
	knowing := mean()
	cfg.Blind = true
	if blind := mean(); float64(knowing) > 0.9*float64(blind) {
		t.Errorf("a job takes %v on average, %v where models are ignored", knowing, blind)
	}
}

func TestValidateModels(t *testing.T) {
	cfg := Config{Jobs: []Job{elastic("a", 0, s, 1)}, Nodes: 2, DevicesPerNode: 1, Policy: byName(t, "share"), Models: []string{"k80"}}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "models of 1 nodes: name one for each of the 2") {
		t.Error(err)
	}
	cfg.Models, cfg.Jobs[0].MinWorkers, cfg.Jobs[0].MaxWorkers = []string{"k80", "v100"}, 2, 2
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "needs 2 devices or more and the cluster has 1 of one model") {
		t.Error(err)
	}
	cfg.Blind = true
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

// What is told of a job are its speeds on each model, or their mean where none is told apart.
func TestPacesOfModels(t *testing.T) {
	j := &job{Job: onTwo("a", 0, time.Hour, 4)}
	w := &world{cfg: Config{Models: []string{"k80", "v100", "k80"}, DevicesPerNode: 1}}
	if got := w.paces(j, j.standing([]int{1}, 64)); !slices.Equal(got, []paceOn{{"k80", 1}, {"v100", 4}}) {
		t.Error(got)
	}
	w.cfg.Blind = true
	if got := w.paces(j, j.standing([]int{1}, 64)); !slices.Equal(got, []paceOn{{deviceModel, 2}}) {
		t.Error(got)
	}
	if got := j.speedOn([]string{"v100", "k80"}, 1); got != 1 {
		t.Errorf("on both it is %v times as fast as on the slower one", got)
	}
}
