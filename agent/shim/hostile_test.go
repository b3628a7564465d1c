package shim

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/recordtest"
)

func anyOrder() run.Order {
	return run.Order{
		Spec:    cluster.Spec{Command: []string{"train"}, Workdir: "/w", Env: map[string]string{"A": "b"}},
		Version: run.ProtocolVersion, Cluster: "c", Node: "n1",
		Checkpoint: "/c/j/g00000002-x", LogDir: "/l", LockDir: "/k", LogMaxBytes: 1 << 20, Resume: &record.Checkpoint{Dir: "/c/j/g00000001/step-1", Step: 1},
		World: cluster.World{Job: "j", Generation: 2, Nonce: "x", BatchSize: 8, Master: cluster.Endpoint{Host: "10.0.0.1", Port: 7000}, Members: []cluster.Member{
			{Node: "n0", Devices: []cluster.DeviceID{"c"}}, {Node: "n1", Devices: []cluster.DeviceID{"d", "e"}, FirstRank: 1},
		}},
	}
}

// FuzzOrder: an order that is not refused can be carried out: each of its workers
// has an environment and a device.
func FuzzOrder(f *testing.F) {
	text, err := json.Marshal(anyOrder())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for seed := range uint64(300) {
		f.Add(recordtest.Value(rand.New(rand.NewPCG(seed, 4)), text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var o run.Order
		if json.Unmarshal(text, &o) != nil || o.Check() != nil {
			return
		}
		member, _, _ := o.World.Member(o.Node)
		for local := range member.Processes() {
			if len(member.DevicesOf(local)) == 0 {
				t.Errorf("worker %d of %+v has no device", local, member)
			}
			for _, v := range run.Listed(o.Environment("/r/j", local)) {
				if strings.ContainsRune(v, 0) {
					t.Errorf("%q cannot be set", v)
				}
			}
		}
	})
}

// FuzzWorkerMessage: whatever a worker says, the report stays one that can be written.
func FuzzWorkerMessage(f *testing.F) {
	for _, text := range []string{
		`{"saved":{"step":5,"samples":40,"dir":"/c/j/g00000002-x/step-5"}}`, `{"progress":{"step":5,"samples":40,"loss":1.5}}`,
		`{"saved":{"step":9223372036854775807,"samples":-1,"dir":"/c/j/g00000002-x/../../x"}}`, `{"progress":{"step":-9223372036854775808}}`,
		`{"progress":{"step":6,"age":1e300}}`, `{"progress":{"step":7,"age":-1e300}}`,
	} {
		f.Add([]byte(text), []byte(`{"progress":{"step":9223372036854775807,"samples":-5}}`))
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		order := anyOrder()
		s := run.New(order, run.Process{}, run.Weak)
		for _, text := range [][]byte{one, two, one} {
			var msg fromWorker
			if json.Unmarshal(text, &msg) != nil {
				continue
			}
			if saved := msg.Saved; saved != nil {
				save := run.Save{Step: saved.Step, Samples: saved.Samples, Dir: saved.Dir}
				if checkSave(order.Checkpoint, save) == nil {
					s.Saved(save)
				}
			}
			if p := msg.Progress; p != nil {
				s.Progressed(*p, time.Now())
			}
		}
		for _, save := range s.Report.Saves {
			if !strings.HasPrefix(save.Dir, order.Checkpoint+"/") || save.Step < 0 {
				t.Errorf("a save of %+v", save)
			}
		}
		if p := s.Report.Progress; p != nil && (p.Step < 0 || p.Step > record.MaxCount || p.FirstStep > p.Step || p.FirstAt.After(p.At) || p.StepsPerSecond < 0) {
			t.Errorf("progress of %+v", *p)
		}
		if _, err := json.Marshal(s.Report); err != nil {
			t.Error(err)
		}
	})
}

// A scan reads whatever lies in run directories, and leaves out what is no run.
func TestRunFilesMadeWrong(t *testing.T) {
	const seeds = 300
	base := t.TempDir()
	order, errOrder := json.Marshal(anyOrder())
	if errOrder != nil {
		t.Fatal(errOrder)
	}
	files := map[string][]byte{
		rundir.OrderFile: order, rundir.ShimFile: []byte(`{"version":1,"shim":{"pid":4194303,"start_time":1,"boot_id":"b"},"cgroup":"/none","limits":["/none"]}`),
		rundir.ReportFile: []byte(`{"version":1,"shim":{"pid":4194303,"start_time":1,"boot_id":"b"},"workers":[{"rank":1,"pid":4194302,"start_time":1}],"stopped":{"exits":[]}}`),
	}
	dirs := make([]string, seeds)
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 5))
		root := filepath.Join(base, strconv.FormatUint(seed, 10))
		dir := filepath.Join(root, "j-g2")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		dirs[seed] = dir
		for name, text := range files {
			switch rng.IntN(6) {
			case 0:
				text = text[:rng.IntN(len(text))]
			case 1, 2, 3:
				text = recordtest.Value(rng, text)
			}
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		runs, unreadable, err := rundir.Scan(root)
		if err != nil || len(runs)+len(unreadable) > 1 {
			t.Errorf("seed %d: %d runs, %d unreadable, %v", seed, len(runs), len(unreadable), err)
		}
		for _, r := range runs {
			_, _ = rundir.ReadReport(r.Dir)
			_ = r.Order.Check()
		}
	}
	// One call lists the machine's processes once, for all runs.
	lists, errInside := sweep.Inside(dirs)
	if errInside != nil || len(lists) != seeds {
		t.Fatalf("%d lists of %d runs, %v", len(lists), seeds, errInside)
	}
	for i, inside := range lists {
		if len(inside.PIDs) > 0 {
			t.Errorf("%s: no process is of this run, and it lists %v", dirs[i], inside)
		}
	}
}
