package forecast_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/record"
)

// What would be left is told of jobs of unknown work: by steps of the kind where the job
// tells its own and its speed is known, else by work, and by all kinds where its own has none.
func TestAlike(t *testing.T) {
	speed := []goodput.Point{{Workers: 1, Nodes: 1, PerSecond: 10, Windows: 8}}
	kind := []forecast.Took{{Steps: 6000, Work: time.Hour}, {Steps: 3000, Work: time.Hour}, {Steps: 100, Work: 5 * time.Second}}
	fleet := []forecast.Took{{Work: 2 * time.Hour}}
	job := forecast.Job{Sizes: []int{1, 2}, Done: 1000, Reported: true, Points: speed, KindTook: kind, FleetTook: fleet}
	for name, c := range map[string]struct {
		change func(*forecast.Job)
		want   []time.Duration
	}{
		"by steps":         {func(*forecast.Job) {}, []time.Duration{200 * time.Second, 500 * time.Second}},
		"steps are known":  {func(j *forecast.Job) { j.Steps = 2000 }, nil},
		"no speed":         {func(j *forecast.Job) { j.Points = nil }, []time.Duration{5 * time.Second, time.Hour, time.Hour}},
		"longer than all":  {func(j *forecast.Job) { j.Done = 6000 }, nil},
		"no kind":          {func(j *forecast.Job) { j.KindTook = nil }, []time.Duration{2*time.Hour - 100*time.Second}},
		"reports are void": {func(j *forecast.Job) { j.Void, j.Trained, j.Service = true, time.Minute, time.Minute }, []time.Duration{59 * time.Minute, 59 * time.Minute}},
		"its code changed": {func(j *forecast.Job) {
			j.Kind = []goodput.Point{{Workers: 1, Nodes: 1, PerSecond: 100, Windows: 8}, {Workers: 2, Nodes: 1, PerSecond: 900, Windows: 8}}
			j.Points = append(slices.Clone(speed), goodput.Point{Workers: 2, Nodes: 1, PerSecond: 18, Windows: 8})
		}, []time.Duration{2*time.Hour - 100*time.Second}},
		"nothing has ended": {func(j *forecast.Job) { j.KindTook, j.FleetTook = nil, nil }, nil},
	} {
		j := job
		c.change(&j)
		got := forecast.Of(j).Alike
		if !slices.EqualFunc(got, c.want, func(a, b time.Duration) bool { return (a - b).Abs() < 100*time.Millisecond }) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Many jobs of all kinds are told as a few that stand for them.
func TestFleetIsBounded(t *testing.T) {
	kinds := map[uint32]map[string]record.Versioned[record.JobKind]{}
	for uid := range uint32(3) {
		k := record.JobKind{}
		for i := range record.MaxLengths {
			k.Lengths = append(k.Lengths, record.Length{WorkS: float64(1 + i)})
		}
		kinds[uid] = map[string]record.Versioned[record.JobKind]{"k": {Value: k}}
	}
	took := forecast.FleetTookOf(kinds)
	if len(took) != 20 || took[0].Work != time.Second || took[19].Work != 20*time.Second || took[10].Work != 11*time.Second {
		t.Errorf("%v", took)
	}
	if took = forecast.FleetTookOf(nil); took != nil {
		t.Errorf("of none: %v", took)
	}
}
