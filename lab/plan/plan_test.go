package plan_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/lab/plan"
	"github.com/bellows-ml/bellows/lab/trace"
)

const nodes = `nodes:
  - {type: big, gpu: A100, devices: 8, price: 16, most: 2}
  - {type: small, gpu: V100, devices: 1, price: 1}
`

func catalogue(t *testing.T, text string) plan.Catalogue {
	t.Helper()
	c, err := plan.ReadCatalogue("nodes.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func jobs(t *testing.T, c plan.Catalogue, text string) []plan.Job {
	t.Helper()
	d, err := plan.ReadDemands("jobs.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := plan.Jobs(c, d, plan.Speeds{})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func TestFaultsNameLineValueAndRemedy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "nodes.yaml: it is empty; write nodes:",
		"nodes: [{type: a, gpu: X, devices: 1, price: 0}]":                                             `nodes.yaml:1: price "0": write what a node costs an hour, more than 0`,
		"nodes:\n- {type: a, gpu: X, devices: 1, price: -2}":                                           `nodes.yaml:2: price "-2": write what a node costs`,
		"nodes: [{type: a, gpu: X, devices: 1, price: .nan}]":                                          `price ".nan": write what`,
		"nodes: [{type: a, gpu: X, devices: 1, price: nan}]":                                           `price "nan": write what`,
		"nodes: [{type: a, gpu: X, devices: 1, price: \"3\"}]":                                         `price "3": it is a text; leave its quotation marks out`,
		"nodes: [{type: a, gpu: X, devices: 65, price: 1}]":                                            `devices "65": use a whole number from 1 to 64`,
		"nodes: [{type: a, gpu: X, devices: 1, price: 1, most: 0}]":                                    `most "0": use a whole number from 1`,
		"nodes: [{type: a, devices: 1, price: 1}]":                                                     "nodes.yaml:1: gpu is missing: write [{type",
		"nodes: [{type: a, gpu: X, devices: 1, price: 1, size: 2}]":                                    `unknown key "size": use type, gpu, devices, price, most`,
		"nodes:\n- {type: a, gpu: X, devices: 1, price: 1}\n- {type: a, gpu: Y, devices: 1, price: 1}": `nodes.yaml:3: type "a": line 2 has it already; give each type its own name`,
		"nodes: [{type: a, gpu: X, gpu: Y, devices: 1, price: 1}]":                                     "gpu is given twice, first in line 1: keep one",
		"types: []": `"types": the file has one key, nodes`,
	} {
		if _, err := plan.ReadCatalogue("nodes.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"jobs: [{name: a, hours: 0, speeds: {X: 1}}]":                                         `hours "0": write the hours`,
		"jobs: [{name: a, hours: 1, speeds: {X: -1}}]":                                        `X "-1": write its speed`,
		"jobs: [{name: a, hours: 1}]":                                                         "speeds of a are missing",
		"jobs: [{name: a, hours: 1, steps: 2, speeds: {X: 1}}]":                               "work of a: write hours with speeds, or steps",
		"jobs: [{name: a, steps: 2}]":                                                         "model of a is missing",
		"jobs: [{hours: 1, speeds: {X: 1}}]":                                                  "name is missing",
		"jobs: [{name: a, hours: 1, speeds: {X: 1}, deadline: soon}]":                         `deadline "soon": use a time with its unit`,
		"jobs: [{name: a, hours: 1, speeds: {X: 1}, submit: -1h}]":                            `submit "-1h": use a time`,
		"jobs: [{name: a, hours: 1, speeds: {X: 1}, submit: 2h, deadline: 1h}]":               "deadline of a: not after its submit",
		"jobs: [{name: a, hours: 1, speeds: {X: 1}, weight: 0}]":                              `weight "0": write what an hour`,
		"jobs: [{name: a, hours: 1, speeds: {X: 1}, scaling: [1, 0.9]}]":                      "let no number be below the one before",
		"jobs: [{name: a, hours: 1, speeds: {X: 1}, scaling: [2, 3]}]":                        "scaling 2: begin with 1",
		"jobs: [{name: a, hours: 1, speeds: {X: [2, 1]}}]":                                    "X 1: let no number be below the one before; end it at its peak",
		"jobs: [{name: a, hours: 1, speeds: {X: []}}]":                                        "X: write its speed on one device of the model",
		"jobs: [{name: a, hours: 1, speeds: 2}]":                                              "speeds \"2\": write its speed on one device of each GPU model",
		"jobs: [{name: a, hours: 1, speeds: {X: 1, x: 2}}]":                                   "speed on x is given twice, first in line 1: keep one",
		"jobs: [{name: a, hours: 1e300, speeds: {X: 1}}]":                                     `hours "1e300": use a number from 1e-09 to 1e+09`,
		"jobs: [{name: a, hours: \"1\", speeds: {X: 1}}]":                                     `hours "1": it is a text; leave its quotation marks out`,
		"jobs: [{name: a, hours: 1, speeds: {X: [1, 0]}}]":                                    `X "0": write its speed`,
		"jobs:\n- {name: a, hours: 1, speeds: {X: 1}}\n- {name: a, hours: 1, speeds: {X: 1}}": `jobs.yaml:3: name "a": line 2 has it already`,
	} {
		if _, err := plan.ReadDemands("jobs.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestUnknownModelsAreNamed(t *testing.T) {
	t.Parallel()
	c := catalogue(t, nodes)
	for text, want := range map[string]string{
		"jobs: [{name: a, hours: 1, speeds: {A100: 1}}]": `nodes.yaml:3: gpu "V100": no job has a speed on it; use one of A100, or leave small out`,
		"jobs: [{name: a, hours: 1, speeds: {H100: 1}}]": `jobs.yaml:1: job "a": it has no speed on A100, V100; give it one, or add a node with one of its GPUs to nodes.yaml`,
		"jobs: [{name: a, steps: 1, model: m}]":          `job "a": model "m": give --profile, which has its speeds`,
	} {
		d, err := plan.ReadDemands("jobs.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := plan.Jobs(c, d, plan.Speeds{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A job's speeds may be told for each number of devices of a model, or for one device and all models alike.
func TestSpeedsMayBeCurves(t *testing.T) {
	t.Parallel()
	c := catalogue(t, "nodes: [{type: a, gpu: A100, devices: 4, price: 3}, {type: b, gpu: V100, devices: 4, price: 1}, {type: c, gpu: K80, devices: 4, price: 1}]")
	inf := math.Inf(1)
	got := jobs(t, c, "jobs: [{name: a, hours: 12, speeds: {a100: [3, 6, 12], V100: [1, 1.5], K80: 0.5}, scaling: [1, 2, 3]}]")
	if want := [][]float64{{4, 2, inf, 1}, {12, 8, inf, inf}, {24, 12, inf, 8}}; !reflect.DeepEqual(got[0].Times, want) {
		t.Errorf("%v, want %v", got[0].Times, want)
	}
}

// A trace's work is its duration at the speed of the devices it asked for.
func TestTracesHaveTheirProfilesTimes(t *testing.T) {
	t.Parallel()
	f, err := trace.Read("t.csv", strings.NewReader("job_id,submit_s,gpus,duration_s,model,batch_size,iterations,deadline_s,vc\na,0,2,3600,m,16,,7200,\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := trace.ReadProfile("p.csv", strings.NewReader("gpu_type,model,batch_size_per_gpu,gpus,steps_per_s\nv100,m,16,1,4\nv100,m,16,2,6\nk80,m,16,1,1\nk80,m,16,2,2\n"), trace.Refuse)
	if err != nil {
		t.Fatal(err)
	}
	c := catalogue(t, "nodes: [{type: a, gpu: V100, devices: 2, price: 3}, {type: b, gpu: K80, devices: 2, price: 1}]")
	got, err := plan.Jobs(c, plan.FromTrace(f), plan.Speeds{Profile: p, Device: "v100"})
	if err != nil {
		t.Fatal(err)
	}
	if want := [][]float64{{1.5, 1}, {6, 3}}; !reflect.DeepEqual(got[0].Times, want) || got[0].Deadline != 2 {
		t.Errorf("%+v, want times %v", got[0], want)
	}
	if _, err := plan.Jobs(c, plan.FromTrace(f), plan.Speeds{}); err == nil || !strings.Contains(err.Error(), "give --profile, which has them") {
		t.Errorf("without a profile: %v", err)
	}
	if _, err := plan.Jobs(c, plan.FromTrace(f), plan.Speeds{Profile: p, Device: "p100"}); err == nil || !strings.Contains(err.Error(), "name that GPU with --device") {
		t.Errorf("another device: %v", err)
	}
}

// A job with time to spare runs on what is cheap, one without on what is fast, and one that
// cannot be in time is late by no more than it has to be.
func TestDearNodesRunOnlyForDeadlines(t *testing.T) {
	t.Parallel()
	c := catalogue(t, nodes)
	o, err := plan.Run(c, jobs(t, c, `jobs:
  - {name: patient, hours: 10, speeds: {A100: 1, V100: 0.5}, deadline: 100h}
  - {name: hurried, hours: 10, speeds: {A100: 1, V100: 0.5}, deadline: 5h, weight: 100}
  - {name: someday, hours: 4, speeds: {V100: 1}, submit: 1h}
  - {name: lost, hours: 41, speeds: {A100: 1}, deadline: 31h, weight: 100, submit: 30h}
`), plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := plan.NewReport(c, o, nil)
	if len(r.Jobs) != 4 || r.Jobs[2].StartH != 1 || r.LateJobs != 1 || r.Jobs[3].LateH > 10 || !reflect.DeepEqual(r.Jobs[0].Types, []string{"small"}) || r.Jobs[0].LateH > 0 || !reflect.DeepEqual(r.Jobs[1].Types, []string{"big"}) || r.Jobs[1].LateH > 0 {
		t.Errorf("%+v", r.Jobs)
	}
}

func TestWhatIsPaidAddsUp(t *testing.T) {
	t.Parallel()
	c := catalogue(t, nodes)
	work := jobs(t, c, `jobs:
  - {name: a, hours: 10, speeds: {A100: 1, V100: 0.5}, deadline: 9h}
  - {name: b, hours: 20, speeds: {A100: 1, V100: 0.5}, deadline: 9h, submit: 30m}
  - {name: c, hours: 5, speeds: {A100: 1, V100: 0.4}, submit: 2h, deadline: 60h}
  - {name: d, hours: 30, speeds: {A100: 1, V100: 0.6}, deadline: 8h, submit: 3h, weight: 9}
`)
	for _, rule := range []plan.Rule{plan.Jahani, plan.FIFO, plan.EDF, plan.PS} {
		for _, printed := range []bool{false, true} {
			o, err := plan.Run(c, work, plan.Options{Rule: rule, Nodes: 2, Printed: printed, Start: 0.05})
			if err != nil {
				t.Fatal(err)
			}
			cost, shares, hours := 0.0, 0.0, []float64{0, 0}
			for v, h := range o.NodeHours {
				cost += h * c.Types[v].Price
			}
			for i, p := range o.Phases {
				for v, n := range p.Nodes {
					hours[v] += float64(n) * (p.To - p.From)
				}
				if p.Nodes[0]+p.Nodes[1] > 2 || i > 0 && p.From != o.Phases[i-1].To {
					t.Errorf("%s: phase %d: %+v", rule, i, p)
				}
			}
			late := 0.0
			for _, j := range o.Jobs {
				shares += j.Cost
				late += max(0, j.End-j.Deadline)
				if j.Start < j.Submit || j.End <= j.Start {
					t.Errorf("%s: %+v", rule, j)
				}
			}
			near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6*(1+math.Abs(a)) }
			if len(o.Jobs) != 4 || !near(cost, o.Cost) || !near(shares, o.Shares) || shares > cost+1e-9 || !near(hours[0], o.NodeHours[0]) || !near(late, o.LateHours) {
				t.Errorf("%s, printed %v: %d jobs, cost %v of %v, shares %v of %v, hours %v of %v, late %v of %v",
					rule, printed, len(o.Jobs), cost, o.Cost, shares, o.Shares, hours, o.NodeHours, late, o.LateHours)
			}
		}
	}
}

func TestTheCurveFallsAndPlansAreFunctions(t *testing.T) {
	t.Parallel()
	c := catalogue(t, nodes)
	work := jobs(t, c, `jobs:
  - {name: a, hours: 16, speeds: {A100: 1, V100: 0.5}, deadline: 9h}
  - {name: b, hours: 20, speeds: {A100: 1, V100: 0.5}, deadline: 9h}
`)
	a, err := plan.Curve(c, work, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := plan.Curve(c, work, plan.Options{})
	if err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("two curves of the same jobs differ: %v", err)
	}
	first, last := a[0].Outcome, a[len(a)-1].Outcome
	if !(first.Cost < last.Cost) || !(first.LateHours > last.LateHours) {
		t.Errorf("at no urgency cost %v, late %v h; at the highest %v, %v h", first.Cost, first.LateHours, last.Cost, last.LateHours)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	for hours, want := range map[float64]string{0: "0:00", 1.5: "1:30", 23.999: "1d 0:00", 49.25: "2d 1:15"} {
		if got := plan.Clock(hours); got != want {
			t.Errorf("%v h: %s, want %s", hours, got, want)
		}
	}
}
