package plan

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/allocator/capacity"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/yamltext"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Demand is what a job asks for, before it is known on which nodes it may run. Its work is
// Hours at speed 1, or Steps of a Model and Batch of a profile, or the Arrival of a trace.
type Demand struct {
	Name     string
	At       string  // file and line, for messages
	Submit   float64 // hours from the plan's beginning
	Deadline float64 // on the same clock; +Inf = none
	Weight   float64 // cost of an hour of lateness
	Most     int     // devices at most

	Hours   float64
	Speeds  map[string][]float64 // by GPU model, on 1, 2, 4, … devices; of those on one device alone:
	Scaling []float64            // on 1, 2, 4, … devices beside one; nil = k^0.678

	Steps   float64
	Model   string
	Batch   int
	Arrival *trace.Arrival
}

// DefaultWeight is what an hour of lateness costs where nothing is said.
const DefaultWeight = 1

const demandExample = "jobs: [{name: bert, hours: 40, speeds: {A100: 1, V100: 0.5}, deadline: 48h}]"

// ReadDemands reads a file of jobs. All faults come at once.
func ReadDemands(name string, text []byte) ([]Demand, error) {
	r := reader{name: name}
	var out []Demand
	lines := map[string]int{}
	for _, item := range r.items(text, "jobs", demandExample) {
		d := r.demand(item)
		if first, again := lines[d.Name]; again && d.Name != "" {
			r.fault(item.Line, "name %.40q: line %d has it already; give each job its own", d.Name, first)
		}
		lines[d.Name] = item.Line
		out = append(out, d)
	}
	return out, r.faults.Err()
}

func (r *reader) demand(item yamltext.Value) Demand {
	d := Demand{At: fmt.Sprintf("%s:%d", r.name, item.Line), Deadline: math.Inf(1), Weight: DefaultWeight, Most: capacity.MaxDevices}
	r.entries(item, []string{"name", "submit", "deadline", "weight", "max", "hours", "speeds", "scaling", "steps", "model", "batch"}, func(e yamltext.Entry) {
		switch e.Key {
		case "name":
			d.Name = r.text(e)
		case "submit":
			d.Submit = r.hours(e, 0)
		case "deadline":
			d.Deadline = r.hours(e, 1)
		case "weight":
			d.Weight = r.positive(e, "write what an hour of lateness costs, more than 0")
		case "max":
			d.Most = r.count(e, capacity.MaxDevices)
		case "hours":
			d.Hours = r.positive(e, "write the hours that it takes on one device of speed 1")
		case "speeds":
			d.Speeds = r.speeds(e)
		case "scaling":
			d.Scaling = r.scaling(e)
		case "steps":
			d.Steps = r.positive(e, "write its number of steps on one device")
		case "model":
			d.Model = r.text(e)
		case "batch":
			d.Batch = r.count(e, math.MaxInt32)
		}
	})
	r.whole(item, d)
	return d
}

// whole says what is wrong with a job's keys together.
func (r *reader) whole(item yamltext.Value, d Demand) {
	switch {
	case item.Kind != yamltext.Map || len(r.faults) > 0:
	case d.Name == "":
		r.fault(item.Line, "name is missing: write %s", demandExample)
	case d.Deadline <= d.Submit:
		r.fault(item.Line, "deadline of %s: not after its submit; both count from the plan's beginning", d.Name)
	case d.Hours > 0 == (d.Steps > 0):
		r.fault(item.Line, "work of %s: write hours with speeds, or steps with a model of --profile; one of the two", d.Name)
	case d.Hours > 0 && len(d.Speeds) == 0:
		r.fault(item.Line, "speeds of %s are missing: write its speed on one device of each GPU model, as in {A100: 1, V100: 0.5}", d.Name)
	case d.Steps > 0 && d.Model == "":
		r.fault(item.Line, "model of %s is missing: name the curve of --profile that has its speeds", d.Name)
	}
}

// scalingRemedy and curveRemedy say what to write.
const (
	scalingRemedy = "write the speeds on 1, 2, 4, … devices beside one: [1, 1.7, 2.9]"
	curveRemedy   = "write its speed on one device of the model, more than 0, or those on 1, 2, 4, … devices: [1, 1.7, 2.9]"
)

func (r *reader) scaling(e yamltext.Entry) []float64 {
	out := r.growing(e, scalingRemedy)
	if len(out) > 0 && out[0] != 1 {
		r.fault(e.Value.Line, "scaling %v: begin with 1, the speed on one device", out[0])
	}
	return out
}

// speeds reads those on each GPU model, the case of whose name does not count.
func (r *reader) speeds(e yamltext.Entry) map[string][]float64 {
	out, lines := map[string][]float64{}, map[string]int{}
	if e.Value.Kind != yamltext.Map {
		r.fault(e.Value.Line, "speeds %.40q: write its speed on one device of each GPU model, as in {A100: 1, V100: 0.5}", e.Value.Text)
	}
	for _, s := range e.Value.Entries() {
		gpu := strings.ToLower(s.Key)
		if first, again := lines[gpu]; again {
			r.fault(s.Line, "speed on %s is given twice, first in line %d: keep one", s.Key, first)
		}
		out[s.Key], lines[gpu] = r.curve(s), s.Line
	}
	return out
}

// curve reads the speed on one device of a model, or a list of those on 1, 2, 4, … of them.
func (r *reader) curve(e yamltext.Entry) []float64 {
	if e.Value.Kind == yamltext.List {
		return r.growing(e, curveRemedy)
	}
	return []float64{r.positive(e, curveRemedy)}
}

// growing reads a list of speeds none of which is below the one before.
func (r *reader) growing(e yamltext.Entry, remedy string) (out []float64) {
	for i, v := range e.Value.Items() {
		s := r.positive(yamltext.Entry{Key: e.Key, Value: v}, remedy)
		if i > 0 && s < out[i-1] {
			r.fault(v.Line, "%s %v: let no number be below the one before; end it at its peak", e.Key, s)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		r.fault(e.Value.Line, "%s: %s", e.Key, remedy)
	}
	return out
}

// FromTrace makes demands of a trace's jobs.
func FromTrace(f trace.File) []Demand {
	out := make([]Demand, 0, len(f.Arrivals))
	for i := range f.Arrivals {
		a := &f.Arrivals[i]
		d := Demand{Name: a.ID, At: f.At(*a), Submit: a.Submit.Hours(), Deadline: math.Inf(1), Weight: DefaultWeight, Most: capacity.MaxDevices, Arrival: a, Model: a.Model, Batch: a.BatchSize}
		if a.Deadline > 0 && !a.BestEffort {
			d.Deadline = a.Deadline.Hours()
		}
		out = append(out, d)
	}
	return out
}

// Speeds are the curves that demands are looked up in.
type Speeds struct {
	Profile trace.Profile // nil = none was given
	Device  string        // on which a trace's durations were measured
}

// Jobs finds out how long each demand takes on the nodes of a catalogue. All faults come at once.
func Jobs(c Catalogue, demands []Demand, s Speeds) ([]Job, error) {
	var faults fault.List
	known := map[string]bool{}
	jobs := make([]Job, 0, len(demands))
	for _, d := range demands {
		j := Job{Name: d.Name, Submit: d.Submit, Deadline: d.Deadline, Weight: d.Weight}
		runs := false
		for _, t := range c.Types {
			times, err := d.times(c, t, s)
			if err != nil {
				faults.Usage("%s: job %.40q: %w", d.At, d.Name, err)
				break
			}
			j.Times = append(j.Times, times)
			known[t.GPU] = known[t.GPU] || times != nil
			runs = runs || times != nil
		}
		if len(j.Times) == len(c.Types) && !runs {
			faults.Usage("%s: job %.40q: it has no speed on %s; give it one, or add a node with one of its GPUs to %s", d.At, d.Name, strings.Join(c.gpus(), ", "), c.Name)
		}
		jobs = append(jobs, j)
		if len(faults) >= 10 {
			break
		}
	}
	for _, t := range c.Types {
		if !known[t.GPU] && len(faults) == 0 {
			faults.Usage("%s:%d: gpu %.40q: no job has a speed on it; use one of %s, or leave %s out", c.Name, t.Line, t.GPU, strings.Join(models(demands, s), ", "), t.Name)
		}
	}
	return jobs, faults.Err()
}

func (c Catalogue) gpus() []string {
	var out []string
	for _, t := range c.Types {
		if !slices.Contains(out, t.GPU) {
			out = append(out, t.GPU)
		}
	}
	return out
}

// models are the GPU models that some demand has a speed on.
func models(demands []Demand, s Speeds) []string {
	names := map[string]bool{}
	for _, k := range s.Profile.Keys() {
		names[k.Device] = true
	}
	for _, d := range demands {
		for m := range d.Speeds {
			names[m] = true
		}
	}
	delete(names, "")
	out := make([]string, 0, len(names))
	for n := range names {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// times are the hours that the demand takes on a node type, by devices from one on; nil = it cannot run there.
func (d Demand) times(c Catalogue, t NodeType, s Speeds) ([]float64, error) {
	work, speed, err := d.speeds(c, t.GPU, s)
	if speed == nil || err != nil {
		return nil, err
	}
	out := make([]float64, t.Devices)
	for g := range out {
		out[g] = math.Inf(1)
	}
	for i, v := range speed {
		if k := 1 << i; k <= min(t.Devices, d.Most) {
			out[k-1] = work / v
		}
	}
	return out, nil
}

// speeds are the demand's work, and what it does of it in an hour on 1, 2, 4, … devices of a model.
func (d Demand) speeds(c Catalogue, gpu string, s Speeds) (work float64, speed []float64, err error) {
	switch {
	case d.Hours > 0:
		switch of := d.told(gpu); len(of) {
		case 0:
			return 0, nil, nil
		case 1:
			return d.Hours, scaled(of[0], d.Scaling), nil
		default:
			return d.Hours, of, nil
		}
	case s.Profile == nil && d.Arrival == nil:
		return 0, nil, fmt.Errorf("model %.40q: give --profile, which has its speeds", d.Model)
	case s.Profile == nil && len(c.gpus()) > 1:
		return 0, nil, fmt.Errorf("its speeds on %s are not known: give --profile, which has them", strings.Join(c.gpus(), ", "))
	case s.Profile == nil && d.Arrival.Duration == 0:
		return 0, nil, fmt.Errorf("the trace has no duration for it: give --profile, with its model")
	case s.Profile == nil:
		return d.Arrival.Duration.Hours() * goodput.Default(d.Arrival.Workers), scaled(1, nil), nil
	}
	if d.Arrival == nil {
		speed = s.on(gpu, d)
		return d.Steps, speed, d.nowhere(speed, s)
	}
	work = float64(d.Arrival.Iterations)
	if d.Arrival.Duration > 0 {
		asked := s.on(s.Device, d)
		if asked == nil {
			return 0, nil, fmt.Errorf("model %.40q batch %d: the profile has no speed for it on %q, where the trace's durations were measured; name that GPU with --device", d.Model, d.Batch, s.Device)
		}
		work = d.Arrival.Duration.Hours() * asked[min(bits.Len(uint(d.Arrival.Workers)), len(asked))-1]
	}
	if work == 0 {
		return 0, nil, fmt.Errorf("the trace has neither duration nor iterations for it: fill one in, or leave the line out")
	}
	return work, s.on(gpu, d), nil
}

// told are the speeds that the demand states for a GPU model; nil = none.
func (d Demand) told(gpu string) []float64 {
	for name, of := range d.Speeds {
		if strings.EqualFold(name, gpu) {
			return of
		}
	}
	return nil
}

// nowhere says that a profile has no speed of a job on any GPU.
func (d Demand) nowhere(speed []float64, s Speeds) error {
	if speed != nil || slices.ContainsFunc(s.Profile.Keys(), func(k trace.Key) bool { return k.Model == d.Model && k.BatchSize == d.Batch }) {
		return nil
	}
	return fmt.Errorf("model %.40q batch %d: the profile has no speed for it; use a model and batch of its", d.Model, d.Batch)
}

// on is the curve of a model on a GPU, in steps an hour; nil = it has none. The case of the GPU's name does not count.
func (s Speeds) on(gpu string, d Demand) []float64 {
	for _, k := range s.Profile.Keys() {
		if (gpu == "" || k.Device == "" || strings.EqualFold(k.Device, gpu)) && k.Model == d.Model && k.BatchSize == d.Batch {
			var out []float64
			for _, p := range s.Profile[k] {
				out = append(out, p.Rate*3600)
			}
			return out
		}
	}
	return nil
}

// scaled is a curve from its speed on one device.
func scaled(one float64, scaling []float64) []float64 {
	if scaling == nil {
		for k := 1; k <= capacity.MaxDevices; k *= 2 {
			scaling = append(scaling, goodput.Default(k))
		}
	}
	out := make([]float64, len(scaling))
	for i, v := range scaling {
		out[i] = one * v
	}
	return out
}
