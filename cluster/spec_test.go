package cluster

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func good() Spec {
	return Spec{Name: "train", Command: []string{"python", "train.py"}, Workdir: "/w", CheckpointDir: "/c"}.WithDefaults()
}

func TestDefaultsAreValid(t *testing.T) {
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestWorldSizes(t *testing.T) {
	for _, c := range []struct {
		min, max, batch int
		want            []int
	}{
		{1, 8, 256, []int{1, 2, 4, 8}},
		{3, 9, 256, []int{4, 8}},
		{1, 8, 12, []int{1, 2, 4}},
		{1, 1, 7, []int{1}},
		{2, 8, 7, nil},
		{5, 7, 256, nil},
		{1, 1 << 31, 1 << 20, []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}},
	} {
		s := Spec{MinWorkers: c.min, MaxWorkers: c.max, BatchSize: BatchSize{Min: c.batch}}
		if got := s.WorldSizes(); !slices.Equal(got, c.want) {
			t.Errorf("min %d max %d batch %d: %v, want %v", c.min, c.max, c.batch, got, c.want)
		}
	}
}

// What steps are worth is told by a script: it is bounded by what their samples could be.
func TestBaseSteps(t *testing.T) {
	ranges, fixed := BatchSize{Min: 64, Max: 256}, BatchSize{Min: 64, Max: 64}
	for _, c := range []struct {
		batch BatchSize
		steps int64
		told  float64
		want  int64
	}{
		{ranges, 100, 250.7, 250},
		{ranges, 100, 0, 100},
		{ranges, 100, 99, 100},
		{ranges, 100, 401, 400},
		{ranges, 100, math.NaN(), 100},
		{ranges, 100, math.Inf(1), 400},
		{ranges, 1 << 53, math.Inf(1), 1 << 53},
		{ranges, 0, 50, 0},
		{ranges, -1, 50, -1},
		{fixed, 100, 250, 100},
		{BatchSize{}, 100, 250, 100},
		{BatchSize{Max: 64}, 100, 250, 100},
	} {
		if got := c.batch.BaseSteps(c.steps, c.told); got != c.want {
			t.Errorf("%d steps of %+v that are told to be worth %v: %d, want %d", c.steps, c.batch, c.told, got, c.want)
		}
	}
}

func TestListedWorldSizes(t *testing.T) {
	s := good()
	s.Sizes, s.MinWorkers, s.MaxWorkers, s.BatchSize = []int{3, 6, 12, 24}, 0, 0, BatchSize{Min: 256, Max: 270}
	s = s.WithDefaults()
	if err := s.Validate(); err != nil || s.MinWorkers != 3 || s.MaxWorkers != 24 || !slices.Equal(s.WorldSizes(), s.Sizes) {
		t.Errorf("%v of %d to %d, %v", s.WorldSizes(), s.MinWorkers, s.MaxWorkers, err)
	}
	for k, want := range map[int]int{3: 258, 6: 258, 12: 264, 24: 264, 256: 256, 270: 270, 200: 0, 0: 0} {
		if got := s.BatchSize.On(k); got != want {
			t.Errorf("batch on %d: %d, want %d", k, got, want)
		}
	}
	for _, c := range []struct {
		sizes []int
		batch BatchSize
		want  string
	}{
		{[]int{6, 3}, BatchSize{Min: 24, Max: 24}, "world sizes 6,3: write each once, the smaller first"},
		{[]int{3, 3}, BatchSize{Min: 24, Max: 24}, "write each once"},
		{[]int{0, 3}, BatchSize{Min: 24, Max: 24}, "world sizes 0,3: 0: use 1 to 65536"},
		{[]int{3, 5}, BatchSize{Min: 24, Max: 24}, "batch size 24: 5 workers (world sizes 3,5) cannot share it equally: use a multiple, or a range such as 24:28"},
		{[]int{25}, BatchSize{Min: 20, Max: 24}, "batch size 20:24: no number in it is a multiple of 25"},
		{make([]int, MaxSizes+1), BatchSize{Min: 24, Max: 24}, "world sizes: 257 are listed, at most 256"},
	} {
		s = good()
		s.Sizes, s.MinWorkers, s.MaxWorkers, s.BatchSize = c.sizes, 1, 64, c.batch
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v with %v: got %v, want …%s…", c.sizes, c.batch, err, c.want)
		}
	}
	s = good()
	s.Sizes, s.MaxWorkers = []int{2, 6}, 4
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "world sizes 2,6: 6 is not between min workers 1 and max workers 4") {
		t.Error(err)
	}
}

// A batch of which shares may differ by one sample: any number of workers that have one each may share it.
func TestUnevenBatch(t *testing.T) {
	s := good()
	s.Sizes, s.MaxWorkers, s.BatchSize = []int{1, 2, 3, 4}, 4, BatchSize{Min: 512, Max: 512}
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "3 workers (world sizes 1,2,3,4) cannot share it equally") || !strings.Contains(err.Error(), "or allow uneven shares (uneven batch)") {
		t.Errorf("without uneven shares: %v", err)
	}
	s.BatchSize.Uneven = true
	if err := s.Validate(); err != nil || !slices.Equal(s.WorldSizes(), s.Sizes) || s.MicroBatch() != 128 {
		t.Errorf("%v, sizes %v, a device takes %d at once", err, s.WorldSizes(), s.MicroBatch())
	}
	s.Sizes, s.Training.MicroBatch = []int{1, 3}, 100
	if err := s.Validate(); err != nil {
		t.Errorf("a micro-batch that does not divide shares which differ: %v", err)
	}
	if s.Training.MicroBatch = 0; s.MicroBatch() != 171 {
		t.Errorf("a device takes %d at once, want the largest share", s.MicroBatch())
	}
	s.Sizes = nil
	if s.BatchSize.Min, s.BatchSize.Max = 7, 7; !slices.Equal(s.WorldSizes(), []int{1, 2, 4}) {
		t.Errorf("powers of two that share 7 samples: %v", s.WorldSizes())
	}
	s.Sizes, s.MaxWorkers = []int{8}, 8
	if err := s.Validate(); err == nil || strings.Contains(err.Error(), "uneven") {
		t.Errorf("8 workers on 7 samples: %v", err)
	}
	even, uneven, ranges := BatchSize{Min: 7, Max: 7}, BatchSize{Min: 7, Max: 7, Uneven: true}, BatchSize{Min: 7, Max: 20, Uneven: true}
	for _, c := range []struct {
		batch        BatchSize
		workers, on  int
		sharesTwelve bool
	}{{even, 7, 7, false}, {even, 3, 0, true}, {uneven, 3, 7, true}, {uneven, 7, 7, true}, {uneven, 8, 0, true}, {ranges, 8, 8, true}, {ranges, 13, 13, false}, {ranges, 21, 0, false}, {ranges, 0, 0, false}} {
		if got := c.batch.On(c.workers); got != c.on || c.batch.Shares(12, c.workers) != c.sharesTwelve {
			t.Errorf("%+v on %d workers: %d, and 12 are shared: %t", c.batch, c.workers, got, c.batch.Shares(12, c.workers))
		}
	}
}

func TestValidateNamesFieldValueAndRemedy(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Spec)
		want   string
	}{
		{"min above max", func(s *Spec) { s.MinWorkers, s.MaxWorkers = 8, 4 }, "min workers 8 is above max workers 4"},
		{"negative", func(s *Spec) { s.MinWorkers = -1 }, "min workers -1: use 1 to"},
		{"huge", func(s *Spec) { s.MaxWorkers = 1 << 31 }, "max workers 2147483648: use 1 to"},
		{"no power of two", func(s *Spec) { s.MinWorkers, s.MaxWorkers = 3, 3 }, "no power of two"},
		{"indivisible batch", func(s *Spec) { s.MinWorkers = 2; s.BatchSize = BatchSize{Min: 7, Max: 7} }, "use a multiple of 2"},
		{"indivisible range", func(s *Spec) { s.MinWorkers, s.MaxWorkers = 4, 8; s.BatchSize = BatchSize{Min: 5, Max: 7} }, "no number in it is a multiple of any of the allowed worker counts 4,8: widen it, or allow uneven shares"},
		{"batch order", func(s *Spec) { s.BatchSize = BatchSize{Min: 64, Max: 32} }, "batch size 64:32"},
		{"huge batch", func(s *Spec) { s.BatchSize = BatchSize{Min: 1 << 40, Max: 1 << 40} }, "batch size 1099511627776: use 1 to 2147483647"},
		{"huge range", func(s *Spec) { s.BatchSize = BatchSize{Min: 64, Max: 1 << 40} }, "batch size 64:1099511627776: use 2147483647 at most"},
		{"no command", func(s *Spec) { s.Command = nil }, "command is empty"},
		{"relative dir", func(s *Spec) { s.CheckpointDir = "ckpt" }, `checkpoint dir "ckpt"`},
		{"dots in dir", func(s *Spec) { s.Workdir = "/a/../b" }, `workdir "/a/../b"`},
		{"reserved env", func(s *Spec) { s.Env = map[string]string{"BELLOWS_RANK": "1"} }, "env BELLOWS_RANK"},
		{"env of the workers' own", func(s *Spec) { s.Env = map[string]string{"RANK": "3", "A": "b"} }, "env RANK: Bellows sets it for each worker"},
		{"NUL", func(s *Spec) { s.Command = []string{"a\x00b"} }, "NUL"},
		{"priority", func(s *Spec) { s.Priority = 101 }, "priority 101: use -100 to 100"},
		{"negative grace", func(s *Spec) { s.Deadline, s.Grace = new(time.Now()), -1 }, "grace -1ns: use a time above zero such as 2h, at most 8760h0m0s"},
		{"long grace", func(s *Spec) { s.Deadline, s.Grace = new(time.Now()), MaxGrace+1 }, "grace 8760h0m0.000000001s: use a time above zero"},
		{"grace alone", func(s *Spec) { s.Grace = 1 }, "grace 1ns: the job has no deadline that it could follow"},
		{"time limit", func(s *Spec) { s.TimeLimit = -1 }, "time limit -1ns: use a time above zero such as 12h"},
		{"long time limit", func(s *Spec) { s.TimeLimit = MaxTime + 1 }, "at most 87600h0m0s"},
		{"long eta", func(s *Spec) { s.ETA = MaxETA + 1 }, "eta 876000h0m0.000000001s: use a time above zero such as 3h, at most 876000h0m0s"},
		{"long halt timeout", func(s *Spec) { s.HaltTimeout = MaxHaltTimeout + 1 }, "halt timeout 24h0m0.000000001s: use a positive duration such as 2m, at most 24h0m0s"},
		{"a ready descriptor for a cold start", func(s *Spec) { s.ColdStart, s.ReadyFD = true, true }, "ready fd: nothing waits"},
		{"restarts", func(s *Spec) { s.MaxRestarts = -1 }, "max restarts -1"},
		{"restarts for ever", func(s *Spec) { s.MaxRestarts = MaxRestarts + 1 }, "max restarts 2147483648: use 0 (never restart) to 2147483647"},
		{"steps for ever", func(s *Spec) { s.Steps = MaxSteps + 1 }, "steps 9007199254740993: use 1 to 9007199254740992"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good()
			c.change(&s)
			if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}

func TestValidateReportsAllFaultsAtOnce(t *testing.T) {
	s := good()
	s.Name, s.Kind, s.MinWorkers, s.Priority = "", "../x", -3, 1000
	err := s.Validate()
	for _, want := range []string{"name is empty", `kind "../x": use 1 to 63`, "min workers -3", "priority 1000"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, bad := range []string{"", "../x", "a/b", "a\nb", "\x1b[31mred", "-a", "a-", ".", "a..b", "ä", strings.Repeat("x", 300)} {
		if err := CheckName(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		} else if strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q: the error itself would disturb a terminal: %q", bad, err)
		}
	}
	for _, ok := range []string{"a", "train-7b_v1.2", strings.Repeat("x", MaxNameBytes)} {
		if err := CheckName(ok); err != nil {
			t.Error(err)
		}
	}
}

func TestDurationText(t *testing.T) {
	var d Duration
	if err := d.UnmarshalText([]byte("1h30m")); err != nil || time.Duration(d) != 90*time.Minute {
		t.Errorf("%v, %v", d, err)
	}
	if err := d.UnmarshalText([]byte("90")); err == nil {
		t.Error("a duration without a unit was accepted")
	}
}

// Each field has a bound of its own, and all of them together one more. What is wrong
// is said in a few bytes, whatever was submitted.
func TestValidateBoundsEveryField(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	names := make(map[string]string)
	for i := range MaxEnvNames + 1 {
		names[fmt.Sprint("A", i)] = ""
	}
	for want, change := range map[string]func(*Spec){
		"name":                                 func(s *Spec) { s.Name = long },
		"command has 1048576 bytes":            func(s *Spec) { s.Command = []string{long} },
		"command has 16385 words":              func(s *Spec) { s.Command = slices.Repeat([]string{"x"}, MaxCommandWords+1) },
		"workdir \"/xxx":                       func(s *Spec) { s.Workdir = "/" + long },
		"checkpoint dir \"/xxx":                func(s *Spec) { s.CheckpointDir = "/" + long },
		"env file \"/xxx":                      func(s *Spec) { s.EnvFile = "/" + long },
		"env has 1048577 bytes":                func(s *Spec) { s.Env = map[string]string{"A": long} },
		"env has 4097 names":                   func(s *Spec) { s.Env = names },
		"a name must be non-empty":             func(s *Spec) { s.Env = map[string]string{"=" + long: ""} },
		"env BELLOWS_xxx":                      func(s *Spec) { s.Env = map[string]string{"BELLOWS_" + long: ""} },
		"device model \"xxx":                   func(s *Spec) { s.Where.DeviceModel = long },
		"exclude node: 1025 are named":         func(s *Spec) { s.Where.Not = make([]NodeID, MaxWhereNodes+1) },
		"node: name \"xxx":                     func(s *Spec) { s.Where.Nodes = []NodeID{NodeID(long)} },
		"world sizes: 257 are listed":          func(s *Spec) { s.Sizes = make([]int, MaxSizes+1) },
		"spec has 786604 bytes as JSON, at mo": func(s *Spec) { s.Command = []string{"a", strings.Repeat("\x01", MaxCommandBytes-1)} },
	} {
		s := good()
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 2000 {
			t.Errorf("want …%s…, got %.300v", want, err)
		}
	}
}

func TestValidateTakesEachFieldAtItsBound(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Spec){
		"one word":  func(s *Spec) { s.Command = []string{strings.Repeat("x", MaxCommandBytes)} },
		"words":     func(s *Spec) { s.Command = slices.Repeat([]string{"1234567"}, MaxCommandWords) },
		"workdir":   func(s *Spec) { s.Workdir = "/" + strings.Repeat("x", MaxPathBytes-1) },
		"env":       func(s *Spec) { s.Env = map[string]string{"A": strings.Repeat("x", MaxEnvBytes-1)} },
		"model":     func(s *Spec) { s.Where.DeviceModel = strings.Repeat("x", MaxModelBytes) },
		"env file":  func(s *Spec) { s.EnvFile = "/" + strings.Repeat("x", MaxPathBytes-1) },
		"base path": func(s *Spec) { s.CheckpointDir = "/" + strings.Repeat("x", MaxPathBytes-1) },
	} {
		s := good()
		if change(&s); s.Validate() != nil {
			t.Errorf("%s: %.300v", name, s.Validate())
		}
	}
}
