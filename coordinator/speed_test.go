package coordinator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/record"
)

// Measuring costs etcd at most one write a minute for each job, and one for each of
// its generations; what changes little is written less often.
func TestSpeedIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	const minutes, jobs = 30, 3
	l := newLab()
	play(t, l, "node n1 gpus=4\nsubmit a steps=1000000\nsubmit b\nsubmit c eta=9h\nstarted a\nstarted b\nstarted c")
	writes := func() (n int) {
		for _, line := range l.answers() {
			if strings.HasPrefix(line, "txn speed") {
				n++
			}
		}
		return n
	}
	writes()
	reports, total := 0, 0
	for i := range minutes * 6 {
		l.advance(reportEvery)
		for k, job := range []string{"a", "b", "c"} {
			rate := 10 * (k + 1)
			if job == "b" { // its speed changes all the time
				rate *= 1 + i/6%3
			}
			l.report(words{plain: []string{job}}, int64(rate)*int64(reportEvery/time.Second))
			reports++
		}
		if n := writes(); n > jobs {
			t.Fatalf("%d writes at once after %d reports", n, reports)
		} else if total += n; total > jobs*(1+(i+1)/6) {
			t.Fatalf("%d writes for %d jobs after %d minutes", total, jobs, (i+1)/6)
		}
	}
	if total < minutes/2 || reports != 6*minutes*jobs {
		t.Errorf("%d writes of %d reports: too few to say anything", total, reports)
	}
	t.Logf("%d writes of %d reports of %d jobs in %d minutes", total, reports, jobs, minutes)
}

// A user has so many kinds at most: of more, those that were written first are deleted.
func TestKindsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab()
	play(t, l, "node n1 gpus=4")
	for i := range record.MaxKinds + 5 {
		play(t, l, fmt.Sprintf("submit j%d steps=1000 kind=k%d\nstarted j%d\ntrain j%d for=50s rate=20 boot=4s\nstopped j%d finished=yes", i, i, i, i, i))
	}
	kvs, _ := l.mem.Range(record.KindsPrefix)
	if len(kvs) != record.MaxKinds {
		t.Errorf("%d kinds are kept, want %d", len(kvs), record.MaxKinds)
	}
	if _, ok := l.mem.Get(record.JobKindKey(1000, "k4")); ok {
		t.Error("the first are still there")
	}
}

// Whatever nonsense a job reports, every policy decides about all jobs as if it had reported nothing.
func TestBadReportsMoveNoOtherJob(t *testing.T) {
	t.Parallel()
	const begin = "timed\nnode n1 gpus=8\nwant j=2 k=2\nsubmit j steps=30000 workers=1..8\nsubmit k steps=60000 workers=1..8\nstarted j\nstarted k\n"
	ask := func(story string) allocator.Input {
		l := newLab()
		play(t, l, begin+story+"\nadvance 70s")
		return l.asked
	}
	// The other job reports alike in each story; j is silent in the first, and then reports nonsense.
	silent := ask("train k for=60s rate=20 boot=6s\nadvance 10s")
	if k := silent.Jobs[1]; !k.Work.Known || k.Speeds == nil || silent.Jobs[0].Speeds != nil {
		t.Fatalf("%+v", silent.Jobs)
	}
	answers := 0
	for name, bad := range map[string]string{
		"backwards": "step=3", "a leap": "step=29999", "done at once": "step=30000", "more than there are": "step=999999999", "the largest": "step=9223372036854775807",
	} {
		// First it reports soundly, so that its speed is known and would be used.
		in := ask("train k for=60s rate=20 boot=6s\ntrain j for=50s rate=20 boot=6s\nprogress k step=2000\nadvance 20s\nprogress j " + bad)
		if j := in.Jobs[0]; j.Work != silent.Jobs[0].Work || j.Speeds != nil || !slices.Equal(j.StartCosts, silent.Jobs[0].StartCosts) {
			t.Errorf("%s: the next decision is told %+v, of a silent job %+v", name, j, silent.Jobs[0])
		}
		for _, name := range policy.Names() {
			p, err := policy.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			with := silent // the same moment, with what the bad job would be told as
			with.Jobs = slices.Clone(silent.Jobs)
			with.Jobs[0].Work, with.Jobs[0].Speeds, with.Jobs[0].StartCosts = in.Jobs[0].Work, in.Jobs[0].Speeds, in.Jobs[0].StartCosts
			a, err := allocator.Run(p, silent)
			b, berr := allocator.Run(p, with)
			if err != nil || berr != nil || !slices.Equal(a.Decisions, b.Decisions) {
				t.Errorf("%s: %v and %v; %v, %v", name, a.Decisions, b.Decisions, err, berr)
			}
			answers++
		}
	}
	if answers < 5*len(policy.Names()) {
		t.Errorf("only %d answers were compared", answers)
	}
}

// Small changes are recorded the less often, the longer a generation has run: an eighth
// of its age after the last time.
func TestOldGenerationsAreRecordedLessOften(t *testing.T) {
	t.Parallel()
	const hours = 6
	l := newLab()
	play(t, l, "node n1 gpus=4\nsubmit a\nstarted a")
	total := 0
	for range hours * 360 {
		l.advance(reportEvery)
		l.report(words{plain: []string{"a"}}, int64(10*reportEvery/time.Second))
		for _, line := range l.answers() {
			if strings.HasPrefix(line, "txn speed") {
				total++
			}
		}
	}
	if every5 := hours * 12; total > every5/2 || total < hours {
		t.Errorf("%d records in %d hours", total, hours)
	}
	t.Logf("%d records in %d hours", total, hours)
}
