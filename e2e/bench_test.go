package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// BenchmarkRescale measures what a rescale costs, from the decision to the
// first exec of the next generation, part by part, from the records that the
// leader keeps. One iteration is one rescale of a running job, between two
// workers and one, made by a second job that comes and goes. "own" is Bellows's
// share: (decision → last stop signal) + (last exit → first exec).
//
//	go test ./e2e -run ^$ -bench Rescale -benchtime 300x
func BenchmarkRescale(b *testing.B) {
	for _, c := range []struct {
		name  string
		bytes int
	}{{"state=trivial", 0}, {"state=1GiB", 1 << 30}} {
		b.Run(c.name, func(b *testing.B) {
			f := newFleet(b, config{nodes: 2, devices: 1, policy: "share", interval: 200 * time.Millisecond})
			id := f.submit(f.sdkJob("a", 1, 2, 1<<30, 0.02, "--state-bytes", fmt.Sprint(c.bytes)))
			f.awaitStep("a", 1, 2)
			seen := f.mirror().Job(id).State.Value.Generation
			var all []record.Rescale
			b.ResetTimer()
			for i := 0; len(all) < b.N; i++ {
				other := f.submit(f.sdkJob(fmt.Sprintf("other-%d", i), 1, 1, 1<<30, 0.02))
				all = append(all, f.awaitRescale(id, seen+1, 1))
				f.stop(other)
				seen += 2
				all = append(all, f.awaitRescale(id, seen, 2))
			}
			b.StopTimer()
			reportRescales(b, all[:b.N])
		})
	}
}

// awaitRescale waits for what the leader wrote down of generation g.
func (f *fleet) awaitRescale(id cluster.JobID, g cluster.Generation, size int) record.Rescale {
	f.t.Helper()
	var r record.Rescale
	f.await(fmt.Sprintf("generation %d of %s with %d workers", g, id, size), func(m *record.Mirror) bool {
		r = m.Job(id).Rescales[g].Value
		return r.Generation == g && r.To == size
	})
	for rank := range size {
		f.awaitLine("a", fmt.Sprintf("a step of rank %d in generation %d", rank, g), func(l traceLine) bool {
			return l.Generation == int(g) && l.Rank == rank
		})
	}
	if r.LostSteps != 0 {
		f.t.Errorf("generation %d lost %d steps", g, r.LostSteps)
	}
	return r
}

// reportRescales adds the distribution of the rescales' parts to the benchmark's line.
func reportRescales(b *testing.B, all []record.Rescale) {
	b.Helper()
	var p parts
	for _, r := range all {
		for _, part := range []struct {
			name    string
			seconds float64
		}{{"own", r.OwnS}, {"signal", r.SignalS}, {"save", r.SaveS}, {"commit", r.CommitS}, {"start", r.StartS}} {
			p.add(part.name, time.Duration(part.seconds*float64(time.Second)))
		}
	}
	p.report(b)
}
