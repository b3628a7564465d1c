package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// An idle cluster renews its leases and writes nothing: etcd's disk is for decisions.
func TestIdleClusterWritesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 4})
	revision, since := int64(0), time.Now()
	f.await(time.Minute, "it to come to rest after its start", func(m *record.Mirror) bool {
		if m.Revision != revision {
			revision, since = m.Revision, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
	ticks, start := f.cpu("agent-n1"), time.Now()
	time.Sleep(10 * time.Second) // what is measured
	if now := f.mirror().Revision; now != revision {
		t.Errorf("%d writes in 10 idle seconds, want none", now-revision)
	}
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
	f.awaitStep("a", 3, 2, 30*time.Second)
	other := f.submit(f.sdkJob("b", 1, 1, 100000, 0.05))
	f.awaitRescale(id, 2, 1)
	f.awaitStep("b", 1, 1, 20*time.Second)
	f.stop(other)
	f.awaitRescale(id, 3, 2)

	// From the halt of a generation to its successor's running: the leader's halt,
	// stop_after, commit, START and running; rank 0's offer; held, saved and stopped
	// of each old member; started of each new one; and each node may note progress once.
	for g, members := range map[cluster.Generation]int{2: 3*2 + 1, 3: 3*1 + 2} {
		from, to := f.turnover(id, g)
		var own [][]string
		for _, keys := range f.transactions(from-1, to) {
			if slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(key, string(id)) }) {
				own = append(own, keys)
			}
		}
		t.Logf("%d transactions to generation %d", len(own), g)
		for _, keys := range own {
			t.Logf("  %s", strings.Join(keys, " "))
		}
		if most := 6 + members + 2; len(own) > most {
			t.Errorf("generation %d took %d transactions, want at most %d", g, len(own), most)
		}
	}
}

// turnover returns the revisions at which the generation before g was halted and at which g was running.
func (f *fleet) turnover(id cluster.JobID, g cluster.Generation) (halted, running int64) {
	f.t.Helper()
	for _, c := range f.history() {
		if c.Key != record.StateKey(id) || c.Deleted {
			continue
		}
		var s record.State
		if err := json.Unmarshal(c.Value, &s); err != nil {
			f.t.Fatal(err)
		}
		switch {
		case s.Generation == g-1 && s.Phase == cluster.Halting && halted == 0:
			halted = c.ModRevision
		case s.Generation == g && s.Phase == cluster.Running && running == 0:
			running = c.ModRevision
		}
	}
	if halted == 0 || running < halted {
		f.t.Fatalf("generation %d of %s was never halted for the next: revisions %d and %d", g-1, id, halted, running)
	}
	return halted, running
}

// transactions returns the keys that were written after one revision and up to
// another, transaction by transaction.
func (f *fleet) transactions(after, last int64) [][]string {
	f.t.Helper()
	var all [][]string
	var revision int64
	for _, c := range f.history() {
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

func (f *fleet) stat(name string) []string {
	f.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", f.procs[name].cmd.Process.Pid))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
}

// cpu returns the processor time that a process has used.
func (f *fleet) cpu(name string) time.Duration {
	fields := f.stat(name)
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		f.t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}

// rss returns the bytes that a process has in memory.
func (f *fleet) rss(name string) int64 {
	var pages int64
	if _, err := fmt.Sscan(f.stat(name)[21], &pages); err != nil {
		f.t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
