package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// An idle cluster renews its leases and writes nothing: etcd's disk is for decisions.
func TestIdleClusterWritesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 4})
	time.Sleep(3 * time.Second) // let gossip and first listings settle
	revision, ticks, start := f.mirror().Revision, f.cpu("agent-n1"), time.Now()
	time.Sleep(10 * time.Second)
	if now := f.mirror().Revision; now != revision {
		t.Errorf("%d writes in 10 idle seconds, want none", now-revision)
	}
	used := (f.cpu("agent-n1") - ticks).Seconds() / time.Since(start).Seconds()
	t.Logf("idle agent: %d MiB resident, %.1f %% of a core", f.rss("agent-n1")>>20, 100*used)
}

// One planned rescale of a job on two nodes, counted in revisions: each is one transaction.
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

	counts := map[string]int{}
	for _, c := range f.history() {
		if strings.Contains(c.Key, string(id)) || strings.Contains(c.Key, "/allocation/") {
			counts[fmt.Sprint(c.ModRevision)]++
		}
	}
	// What one node or the leader writes between two lives of the job. The bound
	// is what the protocol needs: per member started, held, saved, stopped; offer; and the
	// leader's halt, stop_after, commit, start, running, decision, progress.
	generations := 3
	const most = 2*4 + 1 + 7
	if got := len(counts); got > most*generations {
		t.Errorf("%d transactions for %d generations, want at most %d each", got, generations, most)
	}
	t.Logf("%d transactions for %d generations on two nodes", len(counts), generations)
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
