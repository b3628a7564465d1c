package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// loop is what one run of testdata/loop.py took.
type loop struct {
	Steps int     `json:"steps"`
	Wall  float64 `json:"wall_s"`
	CPU   float64 `json:"cpu_s"`
}

const (
	loopSteps  = 200
	loopRounds = 60 // about 50 ms
)

// loopCommand is the training loop, and the file that it writes what it took to.
func (s *scripts) loopCommand(more ...string) (command []string, out string) {
	s.t.Helper()
	script, err := filepath.Abs("testdata/loop.py")
	if err != nil {
		s.t.Fatal(err)
	}
	out = filepath.Join(s.dir, "took.json")
	return append([]string{
		python, script, "--steps", strconv.Itoa(loopSteps), "--rounds", strconv.Itoa(loopRounds), "--out", out,
	}, more...), out
}

// took reads what a loop has written down, and takes it away.
func (p *place) took(out string) loop {
	p.t.Helper()
	text, err := os.ReadFile(out)
	if err != nil {
		p.t.Fatal(err)
	}
	var l loop
	if err := json.Unmarshal(text, &l); err != nil || l.Steps != loopSteps {
		p.t.Fatalf("%s: %v", text, err)
	}
	if err := os.Remove(out); err != nil {
		p.t.Fatal(err)
	}
	return l
}

// BenchmarkTraining compares the speed of a training loop, 200 steps of about 50 ms
// and 32 samples in one worker, with and without Bellows, in turn: the median over all pairs of
// (time without) / (time with), in real and in processor time. It also says what
// the node's agent has used meanwhile.
//
//	go test ./e2e -run ^$ -bench Training -benchtime 20x
func BenchmarkTraining(b *testing.B) {
	f := newFleet(b, config{nodes: 1, devices: 1})
	var wall, processor []float64
	used, since := time.Duration(0), time.Duration(0)
	for b.Loop() {
		command, out := f.loopCommand("--bare")
		if text, err := exec.CommandContext(b.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, text)
		}
		bare := f.took(out)
		command, out = f.loopCommand()
		agent, start := f.cpu("agent-n1"), time.Now()
		f.awaitPhase(f.submit(job{
			"name": "loop", "min": 1, "max": 1, "batch-size": 32, "workdir": f.dir, "checkpoint-dir": filepath.Join(f.dir, "ckpt"), "command": command,
		}), cluster.Succeeded)
		used, since = used+f.cpu("agent-n1")-agent, since+time.Since(start)
		with := f.took(out)
		wall, processor = append(wall, bare.Wall/with.Wall), append(processor, bare.CPU/with.CPU)
	}
	slices.Sort(wall)
	slices.Sort(processor)
	b.ReportMetric(wall[len(wall)/2], "speed-ratio")
	b.ReportMetric(processor[len(processor)/2], "cpu-ratio")
	b.ReportMetric(100*used.Seconds()/since.Seconds(), "agent-%cpu")
	b.ReportMetric(float64(f.rss("agent-n1")>>20), "agent-MiB")
}
