package trace

import (
	"cmp"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"
)

// Point is how fast a model steps on a number of workers.
type Point struct {
	Workers int
	// Rate is in steps per second. Where the profile's batch is one device's, as in Gavel's, they are
	// those of all devices added up.
	Rate float64
	// Target is how many steps a training takes at this batch, for traces that do not say; 0 = not given.
	Target int64
	line   int
}

// Key names one speed curve.
type Key struct {
	Device    string // the device's model; empty if the profile is of one only
	Model     string
	BatchSize int // the whole world's or one device's, as the profile has it
}

// String is for messages.
func (k Key) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s batch %d", k.Device, k.Model, k.BatchSize))
}

// Profile is the speed curves of models, each from one worker on, without
// holes among the powers of two, and, unless read with Keep, never falling: a
// job that is given more devices is never the slower for it.
type Profile map[Key][]Point

// Falling says what to do with a curve on which more workers are slower.
type Falling int

// What to do about falling curves.
const (
	// Refuse makes a falling curve a fault.
	Refuse Falling = iota
	// Flatten lets a world that is slower than a smaller one run as fast as that:
	// what the surplus devices do best is nothing.
	Flatten
	// Keep takes curves as they were measured: for simulators that let jobs be slower on more.
	Keep
)

// profileFormat names the columns of one kind of profile.
type profileFormat struct{ device, batch, rate string }

func profileFormats() []profileFormat {
	return []profileFormat{
		{"gpu_type", "global_batch", "iters_per_s"},
		{"gpu_type", "batch_size_per_gpu", "steps_per_s"},
		{"", "global_batch", "iters_per_s"},
	}
}

func (f profileFormat) fits(head []string) bool {
	for _, c := range []string{"model", "gpus", f.device, f.batch, f.rate} {
		if c != "" && !slices.Contains(head, c) {
			return false
		}
	}
	return f.device != "" || !slices.Contains(head, "gpu_type")
}

// ReadProfile reads speed curves. Points on worker counts that are no power of two
// are left out: no world has them.
func ReadProfile(name string, r io.Reader, falling Falling) (Profile, error) {
	t, err := openTable(name, r)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(profileFormats(), func(f profileFormat) bool { return f.fits(t.head) })
	if i < 0 {
		return nil, fmt.Errorf("%s:1: columns %.200q are those of no known speed profile; use gpu_type,model,global_batch,gpus,iters_per_s", name, list(t.head))
	}
	f := profileFormats()[i]
	p := Profile{}
	for {
		more, err := t.next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if f.rate == "steps_per_s" && zero(t.text(f.rate)) {
			continue // gavel's way to say that the model does not run on so many
		}
		k := Key{Device: t.text(f.device), Model: t.must("model"), BatchSize: t.batch(f.batch)}
		pt := Point{Workers: t.positive("gpus"), Rate: t.rate(f.rate), Target: t.count("iters_to_target"), line: t.line}
		if pt.Workers > 0 && bits.OnesCount(uint(pt.Workers)) == 1 {
			p[k] = append(p[k], pt)
		}
	}
	t.checkCurves(p, falling)
	if err := t.err(); err != nil {
		return nil, err
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("%s: no speed in it: was the file cut off?", name)
	}
	return p, nil
}

// batch is count of a cell in which 0 is as good as empty: some models have no batch size.
func (t *table) batch(column string) int { return int(t.count(column)) }

func (t *table) checkCurves(p Profile, falling Falling) {
	for _, k := range p.Keys() {
		curve := p[k]
		slices.SortStableFunc(curve, func(a, b Point) int { return cmp.Compare(a.Workers, b.Workers) })
		for i := range curve {
			t.checkPoint(k, curve, i, falling)
		}
	}
}

func (t *table) checkPoint(k Key, curve []Point, i int, falling Falling) {
	pt := curve[i]
	fault := func(reason, remedy string) {
		t.add(Fault{Line: pt.line, Field: "gpus", Value: fmt.Sprint(pt.Workers), Reason: fmt.Sprintf("%s: %s", k, reason), Remedy: remedy})
	}
	switch {
	case i == 0 && pt.Workers != 1:
		fault("the curve has no speed on 1", "measure it on 1, 2, 4, … without a hole")
	case i == 0:
	case pt.Workers == curve[i-1].Workers:
		fault(fmt.Sprintf("line %d has that count already", curve[i-1].line), "keep one of the two")
	case pt.Workers != 2*curve[i-1].Workers:
		fault(fmt.Sprintf("a hole after %d", curve[i-1].Workers), "measure it on every power of two in between")
	case pt.Rate < curve[i-1].Rate && falling == Flatten:
		curve[i].Rate = curve[i-1].Rate
	case pt.Rate < curve[i-1].Rate && falling == Refuse:
		fault(fmt.Sprintf("%v steps per second are fewer than the %v on %d", pt.Rate, curve[i-1].Rate, curve[i-1].Workers),
			"end the curve at its peak, or ask for falling curves to be flattened")
	}
}

// Keys returns the names of the curves, sorted.
func (p Profile) Keys() []Key {
	keys := make([]Key, 0, len(p))
	for k := range p {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Model, b.Model), cmp.Compare(a.BatchSize, b.BatchSize))
	})
	return keys
}

// Curve finds the speeds of a job: on the device asked for, or, if that is
// empty, on the only one that the profile has for it.
func (p Profile) Curve(device, model string, batch int) ([]Point, error) {
	var found []Key
	for _, k := range p.Keys() {
		if k.Model == model && k.BatchSize == batch && (device == "" || k.Device == device) {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 1:
		return p[found[0]], nil
	case 0:
		return nil, fmt.Errorf("model %.40q batch %d: the profile has no speed for it; use the profile that goes with the trace", model, batch)
	}
	return nil, fmt.Errorf("model %.40q batch %d: the profile has it on %s and on %s; name one device", model, batch, found[0].Device, found[1].Device)
}
