package trace

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func rates(curve []Point) []float64 {
	var out []float64
	for _, p := range curve {
		out = append(out, p.Rate)
	}
	return out
}

func TestReadProfile(t *testing.T) {
	text, err := os.ReadFile("testdata/profile.csv")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = ReadProfile("p.csv", strings.NewReader(string(text)), Refuse); err == nil ||
		!strings.Contains(err.Error(), `p.csv:4: gpus "4": A100 bert batch 64: 8.4 steps per second are fewer than the 8.5 on 2; end the curve`) {
		t.Errorf("a falling curve: %v", err)
	}
	p, err := ReadProfile("p.csv", strings.NewReader(string(text)), Flatten)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		device, model string
		batch         int
		want          []float64
		fault         string
	}{
		{"A100", "bert", 64, []float64{6, 8.5, 8.5}, ""},
		{"T4", "bert", 64, []float64{1, 2}, ""},
		{"", "bert", 64, nil, "on A100 and on T4; name one"},
		{"", "bert", 65, nil, "no speed for it"},
		{"V100", "bert", 64, nil, "no speed for it"},
	} {
		curve, err := p.Curve(c.device, c.model, c.batch)
		if !slices.Equal(rates(curve), c.want) || (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s %s %d: %v, %v", c.device, c.model, c.batch, rates(curve), err)
		}
	}
}

func TestReadProfileOfOtherKinds(t *testing.T) {
	p, err := ReadProfile("g", strings.NewReader("gpu_type,model,batch_size_per_gpu,gpus,steps_per_s\nk80,A3C,,1,2\nk80,A3C,,2,0\nk80,LM,5,1,2\nk80,LM,5,2,3\n"), Refuse)
	if curve, _ := p.Curve("k80", "A3C", 0); err != nil || !slices.Equal(rates(curve), []float64{2}) {
		t.Errorf("per device: %v, %v", p, err)
	}
	if curve, _ := p.Curve("k80", "LM", 5); !slices.Equal(rates(curve), []float64{2, 3}) {
		t.Errorf("per device, steps of all devices are added up already: %v", p)
	}
	p, err = ReadProfile("e", strings.NewReader("model,global_batch,gpus,nodes,iters_per_s,iters_to_target\nbert,24,1,1,0.5,70\nbert,24,2,1,0.75,70\n"), Refuse)
	if curve, _ := p.Curve("", "bert", 24); err != nil || !slices.Equal(rates(curve), []float64{0.5, 0.75}) || curve[0].Target != 70 {
		t.Errorf("without a device: %v, %v", p, err)
	}
}

func TestReadProfileRefuses(t *testing.T) {
	const head = "gpu_type,model,global_batch,gpus,iters_per_s\n"
	for _, c := range []struct{ name, text, want string }{
		{"columns", "model,speed\n", "no known speed profile"},
		{"empty", head, "no speed in it"},
		{"hole", head + "T4,m,8,1,1\nT4,m,8,4,3\n", `x:3: gpus "4": T4 m batch 8: a hole after 1`},
		{"no 1", head + "T4,m,8,2,1\n", "no speed on 1"},
		{"twice", head + "T4,m,8,1,1\nT4,m,8,1,1\n", "x:3: gpus \"1\": T4 m batch 8: line 2 has that count already"},
		{"zero", head + "T4,m,8,1,0\n", `iters_per_s "0": zero`},
		{"NaN", head + "T4,m,8,1,nan\n", "not a finite number"},
		{"no model", head + "T4,,8,1,1\n", `model "": missing`},
		{"short", head + "T4,m\n", "2 cells in a file of 5 columns"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := ReadProfile("x", strings.NewReader(c.text), Flatten); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant …%s…", err, c.want)
			}
		})
	}
}

func TestReadOverhead(t *testing.T) {
	f, err := os.Open("testdata/overhead.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o, err := ReadOverhead("o.csv", f)
	if err != nil || o[OverheadKey{2, "vgg16"}] != 7500*time.Millisecond || len(o) != 2 {
		t.Errorf("%v, %v", o, err)
	}
	for _, c := range []struct{ text, want string }{
		{"gpus,model\n", "not those of start costs"},
		{"gpus,model,start_overhead_s\n1,m,\n", `o:2: start_overhead_s "": missing`},
		{"gpus,model,start_overhead_s\n1,m,1\n1,m,2\n", `o:3: model "m": named twice`},
	} {
		if _, err := ReadOverhead("o", strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v\nwant …%s…", err, c.want)
		}
	}
}
