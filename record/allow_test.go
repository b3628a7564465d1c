package record_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Each limit is kept at its value and not one before, and is named with its remedy.
func TestRefuses(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	limits := record.Limits{LiveJobs: 3, Bytes: 100_000, Submits: 5, Priority: 10, Exempt: []uint32{7}}
	job := func(phase cluster.Phase, bytes int, ago time.Duration) *record.JobView {
		v := &record.JobView{}
		v.Spec.Size, v.Spec.Value.At = bytes, noon.Add(-ago)
		v.State.Value.Phase, v.State.Value.Generation = phase, 1
		return v
	}
	for _, c := range []struct {
		name     string
		jobs     []*record.JobView
		priority int
		bytes    int
		want     string
	}{
		{name: "nothing yet"},
		{name: "priority at the limit", priority: 10},
		{name: "priority above", priority: 11, want: "priority 11: users may take 10 at most here (--user-priority of the coordinator): submit with that or less"},
		{name: "live jobs", jobs: []*record.JobView{job("queued", 1, time.Hour), job("held", 1, time.Hour), job("running", 1, time.Hour)}, want: "3 jobs of this user have not ended"},
		{name: "ended jobs are not live", jobs: []*record.JobView{job("queued", 1, time.Hour), job("failed", 1, time.Hour), job("running", 1, time.Hour)}},
		{name: "bytes", jobs: []*record.JobView{job("queued", 60_000, time.Hour)}, bytes: 40_001, want: "take 100001 bytes with this one, and a user may have 100000 here"},
		{name: "bytes at the limit", jobs: []*record.JobView{job("queued", 60_000, time.Hour), job("succeeded", 60_000, time.Hour)}, bytes: 40_000},
		{name: "rate", jobs: []*record.JobView{
			job("stopped", 1, 10*time.Second), job("stopped", 1, 20*time.Second), job("stopped", 1, 30*time.Second), job("stopped", 1, 0), job("stopped", 1, 59*time.Second),
		}, want: "within a minute counts 5, where each job counts 1 and each 8 KiB of its spec 1 more, and a user may submit 5 here (--user-submits-per-minute of the coordinator): try again in 1s"},
		{name: "rate of long ago", jobs: []*record.JobView{
			job("stopped", 1, 61*time.Second), job("stopped", 1, 60*time.Second), job("stopped", 1, 30*time.Second), job("stopped", 1, 0), job("stopped", 1, 59*time.Second),
		}},
		{name: "later ones do not count", jobs: []*record.JobView{
			job("stopped", 1, -time.Second), job("stopped", 1, -time.Second), job("stopped", 1, 30*time.Second), job("stopped", 1, 0), job("stopped", 1, 59*time.Second),
		}},
		{name: "a large one counts for many", jobs: []*record.JobView{job("stopped", 40_000, time.Second)}, want: "counts 5"},
		{name: "a first one may be larger than all", bytes: 90_000},
	} {
		u := &record.Usage{}
		for _, v := range c.jobs {
			u.CountJob(v)
		}
		s := record.Submission{UID: 1000, Spec: cluster.Spec{Priority: c.priority}, Bytes: c.bytes, At: noon}
		got := limits.Refuses(s, u)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want …%s…", c.name, got, c.want)
		}
		for _, s.UID = range []uint32{0, 7} {
			if got := limits.Refuses(s, u); got != "" {
				t.Errorf("%s, of uid %d: %s", c.name, s.UID, got)
			}
		}
	}
}

// A job that was refused costs its user nothing: one who tries again is not kept out by having tried.
func TestRefusedJobsDoNotCount(t *testing.T) {
	t.Parallel()
	v := &record.JobView{}
	v.State.Value.Phase = cluster.Failed
	u := &record.Usage{}
	u.CountJob(v)
	if got := (record.Limits{LiveJobs: 1, Submits: 1, Bytes: 1 << 20}).Refuses(record.Submission{UID: 1, At: time.Now()}, u); got != "" {
		t.Error(got)
	}
}

// What waits for a leader counts as what was admitted does, once, and of its user alone.
func TestUsageCountsRequestsAndJobs(t *testing.T) {
	t.Parallel()
	m := mirror(t, nil)
	rev := int64(0)
	put := func(key string, v any) {
		rev++
		change(t, m, record.Change{KV: record.KV{Key: key, Value: record.Put(key, v).Value, CreateRevision: rev, ModRevision: rev}})
	}
	of := func(uid uint32) cluster.Owner { return cluster.Owner{UID: uid} }
	spec := cluster.Spec{Name: "x"}
	put(record.SpecKey("a"), record.Submitted{Owner: of(1)})
	put(record.StateKey("a"), record.State{Phase: cluster.Queued})
	put(record.SpecKey("b"), record.Submitted{Owner: of(2)})
	put(record.StateKey("b"), record.State{Phase: cluster.Queued})
	put(record.RequestKey("n1", "r1"), record.Request{Kind: record.SubmitRequest, Job: "a", Owner: of(1), Spec: &spec}) // admitted
	put(record.RequestKey("n2", "r2"), record.Request{Kind: record.SubmitRequest, Job: "c", Owner: of(1), Spec: &spec})
	put(record.RequestKey("n2", "r3"), record.Request{Kind: record.StopRequest, Job: "a", Owner: of(1)})
	if u := m.Usage(1); u.Live != 2 || u.Bytes == 0 {
		t.Errorf("%+v", u)
	}
	if u := m.Usage(3); u.Live != 0 || u.Bytes != 0 {
		t.Errorf("%+v", u)
	}
	if !m.Allowed().Equal(record.DefaultLimits()) {
		t.Errorf("without a word of the leader: %+v", m.Allowed())
	}
	put(record.LimitsKey, record.Limits{LiveJobs: 5})
	if m.Allowed().LiveJobs != 5 || m.Allowed().Equal(record.DefaultLimits()) {
		t.Errorf("with the leader's word: %+v", m.Allowed())
	}
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for space, want := range map[record.Space]bool{
		{Used: 90, Quota: 100}: false, {Used: 91, Quota: 100}: true, {Used: 200, Quota: 100}: true, {Used: 1 << 40}: false, {}: false,
	} {
		if space.Reserved() != want {
			t.Errorf("%+v: %v", space, !want)
		}
	}
}
