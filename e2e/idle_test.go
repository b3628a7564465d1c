package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// An idle cluster renews its leases and writes nothing: etcd's disk is for decisions.
func TestIdleClusterWritesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 4})
	// Longer than any period of its own; a machine that is too busy for a lease may cost a start anew.
	const quiet = 10 * time.Second
	revision, start, ticks := int64(0), time.Now(), time.Duration(0)
	f.await("ten seconds without a write", func(m *record.Mirror) bool {
		if m.Revision != revision {
			revision, start, ticks = m.Revision, time.Now(), f.cpu("agent-n1")
		}
		return time.Since(start) > quiet
	})
	used := (f.cpu("agent-n1") - ticks).Seconds() / time.Since(start).Seconds()
	t.Logf("idle agent: %d MiB resident, %.1f %% of a core", f.rss("agent-n1")>>20, 100*used)
}

// BenchmarkIdle counts what a cluster of two nodes writes, and what its
// processes use, in a minute in which nothing happens: with no job, and with
// one that trains, whose nodes note its progress.
//
//	go test ./e2e -run ^$ -bench Idle -benchtime 1x
func BenchmarkIdle(b *testing.B) {
	for _, jobs := range []int{0, 1} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			f := newFleet(b, config{nodes: 2, devices: 4})
			if jobs > 0 {
				f.settled(f.submit(f.sdkJob("trains", 8, 8, 1<<30, 0.8)), 8)
			}
			time.Sleep(5 * time.Second) // gossip and first listings settle
			for b.Loop() {
				from, agent, coordinator := f.mirror().Revision, f.cpu("agent-n1"), f.cpu("coordinator-1")
				time.Sleep(time.Minute) // what is measured
				txns := f.transactions(from, f.mirror().Revision)
				for _, keys := range txns {
					b.Log(keys)
				}
				b.ReportMetric(float64(len(txns)), "writes/min")
				b.ReportMetric(100*(f.cpu("agent-n1")-agent).Minutes(), "agent-%cpu")
				b.ReportMetric(100*(f.cpu("coordinator-1")-coordinator).Minutes(), "coordinator-%cpu")
			}
			b.ReportMetric(float64(f.rss("agent-n1")>>20), "agent-MiB")
			b.ReportMetric(float64(f.rss("coordinator-1")>>20), "coordinator-MiB")
		})
	}
}

// Planned rescales of a job on two nodes, counted in revisions: each is one transaction.
func TestWritesPerRescale(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 1, policy: "share"})
	id := f.submit(f.sdkJob("a", 1, 2, 100000, 0.05))
	f.awaitStep("a", 3, 2)
	other := f.submit(f.sdkJob("b", 1, 1, 100000, 0.05))
	f.awaitRescale(id, 2, 1)
	f.awaitStep("b", 1, 1)
	f.stop(other)
	f.awaitRescale(id, 3, 2)

	// From the halt of a generation to its successor's running: the leader's halt,
	// stop_after, commit, START and running; rank 0's offer; held, saved and stopped
	// of each old member; started of each new one. How often progress is noted depends
	// on how long it takes, and what nodes say of preparations may fall into it or before it.
	for g, members := range map[cluster.Generation]int{2: 3*2 + 1, 3: 3*1 + 2} {
		from, to := f.turnover(id, g)
		var own [][]string
		for _, keys := range f.transactions(from-1, to) {
			if slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(key, string(id)) }) && !isProgress(keys) && !isPreparation(keys) {
				own = append(own, keys)
			}
		}
		t.Logf("%d transactions to generation %d", len(own), g)
		for _, keys := range own {
			t.Logf("  %s", strings.Join(keys, " "))
		}
		if most := 6 + members; len(own) > most {
			t.Errorf("generation %d took %d transactions, want at most %d", g, len(own), most)
		}
	}
	f.preparationsAreShort(id)
}

// preparationsAreShort checks what is written of a node's part of a generation that is prepared: the leader's wish for
// it, once; and by the node that processes may exist, then that they are ready or why they are not.
func (r *records) preparationsAreShort(id cluster.JobID) {
	r.t.Helper()
	written := map[string]int{}
	for _, c := range r.history() {
		key := strings.TrimPrefix(c.Key, record.Root)
		if !isPreparation([]string{key}) || !strings.HasSuffix(key, string(id)) || c.Deleted {
			continue
		}
		var of struct {
			Generation cluster.Generation `json:"generation"`
			AliveRev   int64              `json:"alive_rev"` // of ready only: another life of the node says it again
		}
		if err := json.Unmarshal(c.Value, &of); err != nil {
			r.t.Fatal(err)
		}
		written[fmt.Sprintf("%s of generation %d and alive_rev %d", key, of.Generation, of.AliveRev)]++
	}
	if len(written) == 0 {
		r.t.Error("nothing was prepared")
	}
	for what, n := range written {
		if most := 1 + strings.Count(what, "/ready/"); n > most {
			r.t.Errorf("%s was written %d times, want at most %d", what, n, most)
		}
	}
}

// isProgress reports whether a transaction notes a node's progress, or what was measured of it, and nothing else.
func isProgress(keys []string) bool {
	return len(keys) == 1 && (strings.HasSuffix(keys[0], "/progress") || strings.HasSuffix(keys[0], "/speed"))
}

// isPreparation reports whether a transaction is about a generation that is prepared, and nothing else.
func isPreparation(keys []string) bool {
	return len(keys) == 1 && strings.HasPrefix(keys[0], "nodes/") &&
		(strings.Contains(keys[0], "/next/") || strings.Contains(keys[0], "/ready/"))
}

// writes returns the transactions after one revision and up to another, but for those
// by which the members of the cluster stay in it: on a machine with too much to do a
// leader or a node loses its lease, and takes another.
func (r *records) writes(after, last int64) (all [][]string) {
	r.t.Helper()
	upkeep := func(key string) bool {
		return strings.HasPrefix(key, "coordinator/leader/") || strings.HasPrefix(key, "events/") ||
			slices.Contains([]string{"nodes/n1/alive", "nodes/n1/inventory", "nodes/n1/fencing", "nodes/n1/progress"}, key)
	}
	for _, keys := range r.transactions(after, last) {
		if keys = slices.DeleteFunc(keys, upkeep); len(keys) > 0 {
			all = append(all, keys)
		}
	}
	return all
}

// turnover returns the revisions at which the generation before g was halted and at which g was running.
func (r *records) turnover(id cluster.JobID, g cluster.Generation) (halted, running int64) {
	r.t.Helper()
	for _, c := range r.history() {
		if c.Key != record.StateKey(id) || c.Deleted {
			continue
		}
		var s record.State
		if err := json.Unmarshal(c.Value, &s); err != nil {
			r.t.Fatal(err)
		}
		switch {
		case s.Generation == g-1 && s.Phase == cluster.Halting && halted == 0:
			halted = c.ModRevision
		case s.Generation == g && s.Phase == cluster.Running && running == 0:
			running = c.ModRevision
		}
	}
	if halted == 0 || running < halted {
		r.t.Fatalf("generation %d of %s was never halted for the next: revisions %d and %d", g-1, id, halted, running)
	}
	return halted, running
}

// transactions returns the keys that were written after one revision and up to
// another, transaction by transaction.
func (r *records) transactions(after, last int64) [][]string {
	r.t.Helper()
	var all [][]string
	var revision int64
	for _, c := range r.history() {
		if c.ModRevision <= after || c.ModRevision > last {
			continue
		}
		if c.ModRevision != revision {
			all, revision = append(all, nil), c.ModRevision
		}
		all[len(all)-1] = append(all[len(all)-1], strings.TrimPrefix(c.Key, record.Root))
	}
	return all
}

func (ps *processes) stat(name string) procfs.ProcStat {
	ps.t.Helper()
	p, err := procfs.NewProc(ps.procs[name].cmd.Process.Pid)
	if err != nil {
		ps.t.Fatal(err)
	}
	stat, err := p.Stat()
	if err != nil {
		ps.t.Fatal(err)
	}
	return stat
}

// cpu returns the processor time that a process has used.
func (ps *processes) cpu(name string) time.Duration {
	return time.Duration(ps.stat(name).CPUTime() * float64(time.Second))
}

// rss returns the bytes that a process has in memory.
func (ps *processes) rss(name string) int64 { return int64(ps.stat(name).ResidentMemory()) }
