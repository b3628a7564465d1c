package sim

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Speed is how fast a job runs, relative to one device, on 1, 2, 4, … devices. Nil is
// the paper's model, goodput.Default. Beyond its end a curve is flat.
type Speed []float64

// On returns the speed on k devices; a curve is read at the largest power of two that is not above k.
func (s Speed) On(k int) float64 {
	if s == nil {
		return goodput.Default(k)
	}
	return s[min(bits.Len(uint(k))-1, len(s)-1)]
}

// OnModel is how fast a job is on devices of one model.
type OnModel struct {
	Rate  float64 // of one device, relative to that on which Job.Work is counted
	Speed Speed   // relative to one device of the model
}

// onModels is how fast a job is on each of Devices; one is the rate of the device that its work is counted on.
func (m Model) onModels(a trace.Arrival, one float64) (map[string]OnModel, error) {
	if len(m.Devices) == 0 {
		return nil, nil
	}
	on := map[string]OnModel{}
	for _, device := range m.Devices {
		curve, err := m.Profile.Curve(device, a.Model, a.BatchSize)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", device, err)
		}
		speed, rate := curveOf(curve)
		on[device] = OnModel{Rate: rate / one, Speed: speed}
	}
	return on, nil
}

// speedOn is the job's speed with k workers on devices of these models: that of the slowest
// times k, as all wait for each other at each step.
func (j *Job) speedOn(models []string, k int) float64 {
	if j.On == nil {
		return j.Speed.On(k)
	}
	slowest := math.Inf(1)
	for _, m := range models {
		slowest = min(slowest, j.On[m].Rate*j.On[m].Speed.On(k))
	}
	return slowest
}

// curveOf turns a profile's curve into a Speed and its rate on one device.
func curveOf(points []trace.Point) (s Speed, one float64) {
	one = points[0].Rate
	for _, p := range points {
		s = append(s, p.Rate/one)
	}
	return s, one
}
