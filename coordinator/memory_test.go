package coordinator_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// BenchmarkLeaderMemory measures what a leader keeps of each job that waits: its records,
// and with a full speed record what was learnt of it. What the windows of a running
// generation take comes to that.
func BenchmarkLeaderMemory(b *testing.B) {
	for _, jobs := range []int{1_000, 10_000} {
		for _, measured := range []bool{false, true} {
			b.Run(fmt.Sprintf("jobs=%d/measured=%t", jobs, measured), func(b *testing.B) {
				for b.Loop() {
					b.ReportMetric(leaderMemory(jobs, measured)/float64(jobs), "B/job")
				}
			})
		}
	}
}

// leaderMemory is how many bytes less are in use when a leader of so many jobs is gone.
func leaderMemory(jobs int, measured bool) float64 {
	l := newLab()
	l.holding, l.timed, l.thinks = true, true, true
	for i := range 8 {
		if err := l.node(words{plain: []string{fmt.Sprintf("n%d", i+1)}, named: map[string]string{"gpus": "8"}}); err != nil {
			panic(err)
		}
	}
	for i := range jobs {
		id := jobID(fmt.Sprintf("j%d", i))
		l.commit(
			record.Put(record.SpecKey(id), record.Submitted{ID: id, At: l.now, Owner: cluster.Owner{UID: 1000, User: "ann"}, Spec: cluster.Spec{
				Name: fmt.Sprintf("j%d", i), Command: []string{"python3", "train.py", "--lr", "0.1"}, Workdir: "/home/ann/train", CheckpointDir: "/data/ann",
				MinWorkers: 1, MaxWorkers: 64, BatchSize: cluster.BatchSize{Min: 64, Max: 1024}, Steps: 100_000,
			}.WithDefaults()}),
			record.Put(record.WantedKey(id), record.Wanted{Run: true, At: l.now}),
			record.Put(record.StateKey(id), record.State{Phase: cluster.Queued, Since: l.now, Reason: reason.Of(reason.New(reason.Accepted))}),
		)
		if measured {
			l.commit(record.Put(record.SpeedKey(id), fullSpeed(l.now)))
		}
	}
	l.lead(0)
	if l.slow == nil || (l.slow.Jobs[0].Speeds != nil) != measured {
		panic("the first question does not tell what was learnt")
	}
	l.waiting, l.lines, l.slow = nil, nil, nil
	with := inUse()
	runtime.KeepAlive(l.c)
	l.c = nil
	without := inUse()
	runtime.KeepAlive(l)
	return with - without
}

func inUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what has finalizers goes with the second
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// fullSpeed is the speed record of a job that had each of seven sizes, two of them with several batches.
func fullSpeed(now time.Time) record.Speed {
	s := record.Speed{Generation: 16, At: now, Step: 40_000, Samples: 1 << 22, NoiseScale: 700, BaseSteps: 60_000, UsefulS: 8000, TrainedS: 9000}
	for k := 1; k <= 64; k *= 2 {
		s.Points = append(s.Points, record.SpeedPoint{Workers: k, Nodes: (k + 7) / 8, Model: "NVIDIA H100", Batch: 64 * min(k, 16), StepsPerSecond: float64(k), Low: 0.9 * float64(k), High: 1.1 * float64(k), Windows: 40, Generation: 9})
		s.Curve = append(s.Curve, record.CurvePoint{Workers: k, StepsPerSecond: float64(k), Batch: 64, Measured: true})
	}
	for g := range record.MaxStartPoints {
		s.Starts = append(s.Starts, record.StartPoint{Generation: cluster.Generation(g + 1), Workers: 1 << (g % 7), Seconds: 20})
	}
	s.Prediction = &record.Prediction{RemainingS: 4000, End: now.Add(time.Hour), Low: now.Add(50 * time.Minute), High: now.Add(2 * time.Hour)}
	for range record.MaxTold {
		s.Told = append(s.Told, record.ToldEnd{At: now, RemainingS: 4000})
	}
	return s
}
