package render

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record/reason"
)

var update = flag.Bool("update", false, "rewrite the expected files; the diff is the review")

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// trainedJob is a job that has seen everything.
func trainedJob() api.JobStatus {
	return api.JobStatus{
		Priority: 5,
		Spec: cluster.Spec{
			Name: "train", Kind: "train.py-0123456789", Command: []string{"python", "train.py", "--lr", "0.1"}, Workdir: "/home/ann/train", CheckpointDir: "/data/ann",
			MinWorkers: 1, MaxWorkers: 8, BatchSize: cluster.BatchSize{Min: 256, Max: 1024}, Training: cluster.Training{MicroBatch: 16, LRRule: cluster.LRSqrt, LRWarmup: 100},
			PerWorker: cluster.Limits{MemoryBytes: 32 << 30, CPUs: 4}, Where: cluster.Where{PreferModel: "h100", MixModels: true},
			Deadline: new(noon.Add(26 * time.Hour)), MaxRestarts: 3,
		},
		ID: "train-abcdef", Owner: "ann", UID: 1000, Phase: cluster.Running,
		Workers:    4,
		MicroBatch: 16,
		TimeLimitS: 7200, RanS: 3000, LimitAt: new(noon.Add(70 * time.Minute)),
		Generation: 3, SubmittedAt: noon.Add(-90 * time.Minute), Since: noon.Add(-40 * time.Second),
		Reason: "grow from 2 to 4 workers: idle devices", Pinned: true, Excluded: map[string]string{"n3": "no workdir", "n2": "no python"},
		Progress: api.Progress{
			Step: 600, BaseSteps: 720, Samples: 153600, Loss: new(0.123456), StepsTotal: 1000, Fraction: new(0.72), StepsPerSecond: 12.3, At: new(noon.Add(-10 * time.Second)),
		},
		JobSpeed: api.JobSpeed{
			Prediction: &api.Prediction{RemainingS: 32.5, End: noon.Add(32500 * time.Millisecond), EndLow: new(noon.Add(29 * time.Second)), EndHigh: new(noon.Add(41 * time.Second)), At: noon},
			Speeds: []api.SizeSpeed{
				{Workers: 1, Batch: 256, StepsPerSecond: 4.1}, {Workers: 2, Batch: 362, StepsPerSecond: 7.52, Low: 7.1, High: 7.9, Measured: true}, {Workers: 4, Batch: 512, StepsPerSecond: 12.3, Low: 12, High: 12.8, Measured: true}, {Workers: 8, Batch: 1024, StepsPerSecond: 18.66},
			},
			Starts: []api.StartCost{{Generation: 1, Workers: 4, Seconds: 9.25}, {Generation: 2, Workers: 2, Seconds: 6.5}, {Generation: 3, Workers: 4, Seconds: 5.75}},
			Batch:  512, NoiseScale: new(912.5), Goodput: new(0.913), LossTrend: &api.LossTrend{Fall: 0.0123}, SpeedProblem: "its ranks disagree on the step: 600 and 598",
		},
		Problems:   []api.Problem{{Node: "n1", Generation: 3, Text: "checkpoint dir /data/ann: 1.0 MiB are free, the next checkpoint needs 1.2 MiB", At: noon.Add(-time.Minute)}},
		LastResize: &api.Resize{Generation: 3, From: 2, To: 4, Why: "idle devices", At: noon.Add(-40 * time.Second)},
		Restarts:   1,
		Failure: &api.Failure{
			Kind: "worker", Reason: "exit status 1", Node: "n2", Rank: 3, At: noon.Add(-5 * time.Minute),
			LogTail: []string{"Traceback (most recent call last):", "ValueError: \x1b[31mbad\x1b[0m"},
		},
		Members: []api.Member{
			{Node: "n1", Devices: []string{"SIM-n1-0", "SIM-n1-1", "SIM-n1-2"}, Model: "H100", Started: true, PIDs: []int{11, 12, 13}, Containment: "cgroup2", DeviceFiles: "not enforced (operation not permitted)", Readings: []api.DeviceReading{
				{ID: "SIM-n1-0", BusyPercent: new(90), MemoryUsedBytes: 10 << 30, Warning: "wants a reset"}, {ID: "SIM-n1-1", BusyPercent: new(100), MemoryUsedBytes: 11 << 30},
			}},
			{Node: "n4", Devices: []string{"SIM-n4-0"}, FirstRank: 3, Lost: true},
			{Node: "n5", Devices: []string{"SIM-n5-0"}, FirstRank: 4, Started: true, Warm: true, Parked: "train.py:12 (reads RANK)", PIDs: []int{21}, Containment: "cgroup2"},
			{Node: "n6", Devices: []string{"SIM-n6-0"}, FirstRank: 5, Started: true, Cold: "/data/ann/net.py has changed since it was read", PIDs: []int{31}, Containment: "cgroup2"},
		},
		Next: []api.Prepared{{Node: "n1", Ready: true, Workers: 4, MemoryBytes: 310 << 20}, {Node: "n5"}, {Node: "n6", Cold: "/data/ann/net.py has changed since it was read"}},
		Rescales: []api.Rescale{
			{Generation: 1, To: 4, Why: "start", At: noon.Add(-80 * time.Minute), StartS: 0.05, OwnS: 0.05, ResumeStep: -1},
			{Generation: 2, From: 4, To: 2, Why: "node n7 lost", At: noon.Add(-6 * time.Minute), SignalS: 0.1, SaveS: 1.92, WaitS: 9.8, CommitS: 0.04, StartS: 0.07, OwnS: 0.21, ResumeStep: 400, Predicted: 0.6, Measured: 0.611},
			{Generation: 3, From: 2, To: 4, Why: "idle devices", At: noon.Add(-40 * time.Second), SaveS: 1, ResumeStep: 500, LostSteps: -1, Predicted: 1.64},
		},
		Checkpoints: []api.Checkpoint{
			{Step: 300, Generation: 1, WorldSize: 4, Bytes: 3 << 20, Dir: "/data/ann/train-abcdef/g00000001/step-300", Bad: "given up by root", Because: reason.Of(reason.New(reason.CheckpointGivenUpBy, "user", "root"))},
			{Step: 400, Generation: 1, WorldSize: 4, Bytes: 3 << 20, Dir: "/data/ann/train-abcdef/g00000001/step-400", Bad: "digest differs"},
			{Step: 500, Generation: 2, WorldSize: 2, Bytes: 700, Dir: "/data/ann/train-abcdef/g00000002/step-500", Committed: true},
		},
	}
}

func waitingJob() api.JobStatus {
	return api.JobStatus{
		Spec: cluster.Spec{MinWorkers: 8, MaxWorkers: 8},
		ID:   "other-bcdefg", Owner: "bob", Phase: cluster.Queued, SubmittedAt: noon.Add(-3 * time.Hour),
		Since: noon.Add(-2 * time.Minute), WhyPending: "needs 8 devices, 4 are free", QueuePosition: 2, Reason: "needs 8 devices, 4 are free",
	}
}

func endedJob() api.JobStatus {
	return api.JobStatus{
		Spec: cluster.Spec{MinWorkers: 1, MaxWorkers: 1},
		ID:   "old-cdefgh", Owner: "ann", Phase: cluster.Failed, Ended: true, Since: noon.Add(-49 * time.Hour),
		Reason: "rank 0 failed: exit status 3;\nrestart limit", Progress: api.Progress{Step: 12, Samples: -1}, ExitCode: new(3), Generation: 4,
		TimeLimitS: 3600, RanS: 3540,
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	plainPage := View{Now: noon, Zone: time.UTC}
	narrow := View{Now: noon, Zone: time.UTC, Style: output.Style{Terminal: true, Width: 72, Colour: true}}
	jobs := []api.JobStatus{trainedJob(), waitingJob(), endedJob()}
	nodes := []api.NodeStatus{
		{ID: "n1", Alive: true, Gossip: "alive", Addr: "10.0.0.1", DeviceFiles: "bpf", Launchers: 2, LauncherBytes: 1400 << 20, Devices: []api.DeviceStatus{
			{ID: "GPU-1", Model: "H100", MemoryBytes: 80 << 30, Health: "healthy", Job: "train-abcdef", Rank: new(0), Reading: &api.DeviceReading{
				ID: "GPU-1", BusyPercent: new(97), MemoryUsedBytes: 61 << 30, TemperatureC: new(71), Slowed: "heat",
			}},
			{ID: "GPU-2", Model: "H100", MemoryBytes: 80 << 30, Health: "healthy", Reading: &api.DeviceReading{
				ID: "GPU-2", BusyPercent: new(0), UncorrectedECC: new(uint64(2)), LastXid: &api.LastXid{Code: 31, AgeS: 75},
			}},
			{ID: "GPU-3", Health: "unhealthy", Problem: "fell off the bus", Place: &api.DevicePlace{ID: "GPU-3", Index: 2, PCI: "0000:09:00.0"}},
		}, ReadingsAgeS: new(130.5)},
		{ID: "n2", Alive: true, Gossip: "suspect", Addr: "10.0.0.2", DeviceFiles: "not enforced (operation not permitted)", Cordon: "new fans", Devices: []api.DeviceStatus{{ID: "GPU-4", Health: "healthy"}}, NoReadings: "no answer within 2s"},
		{ID: "n3", Gossip: "dead", Problem: "driver not loaded", Location: "block1/rack2", TopologyProblem: "device d1 is in no group", ClockAheadS: new(-7200.5), Launchers: 1, LauncherBytes: 1 << 20},
		{ID: "n4", Alive: true, Devices: []api.DeviceStatus{{ID: "SIM-n4-0", Model: "simulated", Health: "healthy", Group: "g0", NUMA: "1"}}, NoReadings: "simulated devices have none", Simulated: true},
	}
	for name, write := range map[string]func(*strings.Builder) error{
		"ps.txt":         func(b *strings.Builder) error { return Jobs(b, jobs, plainPage) },
		"ps_narrow.txt":  func(b *strings.Builder) error { return Jobs(b, jobs, narrow) },
		"show.txt":       func(b *strings.Builder) error { return Job(b, trainedJob(), plainPage) },
		"show_wait.txt":  func(b *strings.Builder) error { return Job(b, waitingJob(), plainPage) },
		"show_ended.txt": func(b *strings.Builder) error { return Job(b, endedJob(), plainPage) },
		"events.txt":     func(b *strings.Builder) error { return writeEvents(b, plainPage, false) },
		"events.json":    func(b *strings.Builder) error { return writeEvents(b, plainPage, true) },
		"nodes.txt":      func(b *strings.Builder) error { return Nodes(b, nodes, output.Style{}) },
		"devices.txt":    func(b *strings.Builder) error { return Devices(b, nodes, output.Style{}) },
		"show.yaml":      func(b *strings.Builder) error { return output.AsYAML.Write(b, endedJob(), nil) },
		"show.json":      func(b *strings.Builder) error { return output.AsJSON.Write(b, endedJob(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.String())
		})
	}
}

// writeEvents writes one event of each sort.
func writeEvents(b *strings.Builder, p View, asJSON bool) error {
	w := Events{Out: b, JSON: asJSON, View: p}
	for i, e := range []api.Event{
		{Kind: "leader", By: "c2", Why: "leads after c1"},
		{Kind: "node-joined", Node: "n1", Why: "at 10.0.0.1, version 0.1.0"},
		{Kind: "submitted", Job: "train-abcdef", By: "ann"},
		{Kind: "started", Job: "train-abcdef", Generation: 1, To: 1, Seconds: 0.05, OwnS: 0.05, Why: "start with 1 worker", Because: reason.Of(reason.New(reason.StartWith, "n", 1))},
		{Kind: "started", Job: "train-abcdef", Generation: 2, To: 2, Seconds: 1, OwnS: 0.05, Why: "restart after: rank 0 failed"},
		{Kind: "rescaled", Job: "train-abcdef", Generation: 2, From: 1, To: 4, Seconds: 12.34, OwnS: 0.2, Why: "idle\n\x1b[31mdevices"},
		{Kind: "worker-failed", Job: "train-abcdef", Generation: 2, Node: "n1", Rank: new(3), Why: "rank 3 failed on n1: exit status 1"},
		{Kind: "device-problem", Node: "n1", Device: "GPU-1", Why: "GPU-1: fell off the bus"},
		{Kind: "rescaled", Job: "train-abcdef", Generation: 3, From: 4, To: 8, Seconds: 3, OwnS: 0.2, Predicted: 1.6, Why: "idle devices"},
		{Kind: "gained", Job: "train-abcdef", Generation: 3, From: 4, To: 8, Predicted: 1.6, Measured: 1.452},
		{Kind: "made-by-a-later-version", Job: "a-job-with-a-name-that-is-long-abcdef"},
	} {
		e.Revision, e.At = int64(10+i), noon.Add(time.Duration(i)*time.Minute)
		if err := w.Write(e); err != nil {
			return err
		}
	}
	return nil
}

func TestStoryTellsEachChangeOnce(t *testing.T) {
	t.Parallel()
	j := trainedJob()
	at := func(phase cluster.Phase, change func(*api.JobStatus)) api.JobStatus {
		x := j
		x.Phase, x.Rescales, x.Failure, x.Restarts = phase, nil, nil, 0
		change(&x)
		return x
	}
	told := func(text string) []api.Problem {
		return []api.Problem{{Node: "n1", Generation: 1, Text: text, At: noon}}
	}
	s := Story{Zone: time.UTC}
	var b strings.Builder
	for _, status := range []api.JobStatus{
		at(cluster.Queued, func(x *api.JobStatus) { x.WhyPending, x.Because = "accepted", reason.Of(reason.New(reason.Accepted)) }),
		at(cluster.Queued, func(x *api.JobStatus) { x.WhyPending, x.QueuePosition = "needs 4 devices", 2 }),
		at(cluster.Queued, func(x *api.JobStatus) { x.WhyPending, x.QueuePosition = "needs 4 devices", 2 }),
		at(cluster.Queued, func(x *api.JobStatus) { x.WhyPending, x.QueuePosition = "needs 4 devices", 1 }),
		at(cluster.Queued, func(x *api.JobStatus) { x.WhyPending, x.QueuePosition = "waits for train", 1 }),
		at(cluster.Starting, func(*api.JobStatus) {}),
		at(cluster.Running, func(x *api.JobStatus) { x.Rescales = j.Rescales[:1] }),
		at(cluster.Halting, func(x *api.JobStatus) { x.Rescales, x.Reason, x.Saving = j.Rescales[:1], "make room", true }),
		at(cluster.Running, func(x *api.JobStatus) { x.Rescales = j.Rescales[:1] }),
		at(cluster.Running, func(x *api.JobStatus) { x.Rescales, x.Problems = j.Rescales[:1], told("step 3 is lost") }),
		at(cluster.Running, func(x *api.JobStatus) {
			x.Rescales, x.Problems = j.Rescales[:1], append(told("step 3 is lost"), told("step 4 is lost")...)
		}),
		at(cluster.Halting, func(x *api.JobStatus) { x.Rescales, x.Reason = j.Rescales[:1], "rank 3 failed" }),
		at(cluster.Running, func(x *api.JobStatus) { x.Rescales = j.Rescales[:2] }),
		at(cluster.Backoff, func(x *api.JobStatus) {
			x.Rescales, x.Failure, x.Restarts, x.Reason, x.NextStart = j.Rescales[:2], j.Failure, 1, "again", new(noon)
		}),
		at(cluster.Running, func(x *api.JobStatus) {
			x.Rescales, x.Failure, x.Restarts = j.Rescales, j.Failure, 1
			x.Rescales[2].LostSteps = 7
		}),
	} {
		for _, line := range s.Tell(status, noon.Add(time.Hour)) {
			b.WriteString(line + "\n")
		}
	}
	for _, phase := range []cluster.Phase{cluster.Succeeded, cluster.Failed, cluster.Stopped} {
		for _, line := range s.Ending(at(phase, func(x *api.JobStatus) { x.Reason = "why" })) {
			b.WriteString(line + "\n")
		}
	}
	for _, change := range []func(*api.JobStatus){
		func(x *api.JobStatus) { x.TimedOut, x.Reason = true, "time limit of 2h0m0s reached" },
		func(x *api.JobStatus) { x.TimedOut, x.Reason, x.Checkpoints = true, "time limit of 1m0s reached", nil },
	} {
		for _, line := range s.Ending(at(cluster.Stopped, change)) {
			b.WriteString(line + "\n")
		}
	}
	golden(t, "story.txt", b.String())
}

// golden compares text with a file of testdata/golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s goes otherwise (go test ./cli/render -update shows the difference):\n%s", path, got)
	}
}
