package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

func nowOf(l *lab) record.State { return recorded[record.State](l.mem, record.StateKey("j-aaaaaa")) }

// untilPhase lets time pass, at most so much.
func untilPhase(t *testing.T, l *lab, phase cluster.Phase, most time.Duration) {
	t.Helper()
	for end := l.now.Add(most); nowOf(l).Phase != phase; l.advance(time.Second) {
		if l.now.After(end) {
			t.Fatalf("not %s after %v: %+v", phase, most, nowOf(l))
		}
	}
}

const (
	readOnly  = "failed j kind=transient rank=-1 why=read-only_file_system\nstopped j"
	fullDisk  = "failed j kind=space rank=-1 why=no_space_left\nstopped j"
	wellAgain = readOnly + "\ncleared j" // as its node says each time, and is wrong
)

// What may pass is tried again, not for ever, and the wait says how often.
func TestWhatMayPassIsTriedAgainWithABound(t *testing.T) {
	for name, failure := range map[string]string{"it lasts": readOnly, "its node is wrong each time": wellAgain} {
		l := newLab()
		play(t, l, "node n1 gpus=1\nsubmit j workers=1..1 restarts=0")
		began := l.now
		for try := 1; try <= 60; try++ {
			play(t, l, failure)
			if s := nowOf(l); s.Phase != cluster.Backoff || s.Retries != try || s.Restarts != 0 || len(s.Excluded)+len(s.Passing) > 0 ||
				s.Reason.Arg(reason.TryOf, "most") != "60" {
				t.Fatalf("%s: after try %d: %+v", name, try, s)
			}
			untilPhase(t, l, cluster.Starting, 11*time.Minute)
		}
		if took := l.now.Sub(began); took < 30*time.Minute {
			t.Errorf("%s: 60 tries took %v", name, took)
		}
		play(t, l, failure)
		if s := nowOf(l); s.Phase != cluster.Held || !strings.Contains(s.Reason.String(), "read-only file system") {
			t.Errorf("%s: in the end %+v", name, s)
		}
		play(t, l, "resume j\nadvance 10s")
		if s := nowOf(l); s.Phase != cluster.Starting || s.Retries != 0 {
			t.Errorf("%s: resumed: %+v", name, s)
		}
	}
}

// Ten seconds after its node says that it is over a job starts, however long it lasted.
func TestAJobStartsSoonAfterItsNodeSaysThatItIsOver(t *testing.T) {
	for name, failure := range map[string]string{"read-only": readOnly, "full": fullDisk} {
		for _, lasts := range []time.Duration{0, 15 * time.Second, time.Minute, time.Hour} {
			l := newLab()
			play(t, l, "node n1 gpus=1\nsubmit j workers=1..1 restarts=0\n"+failure)
			for over := l.now.Add(lasts); l.now.Before(over); l.advance(time.Second) {
				if nowOf(l).Phase == cluster.Starting {
					play(t, l, failure)
				}
			}
			if nowOf(l).Phase == cluster.Starting {
				play(t, l, failure)
			}
			play(t, l, "cleared j")
			untilPhase(t, l, cluster.Starting, 10*time.Second)
			if s := nowOf(l); s.Restarts != 0 {
				t.Errorf("%s for %v is charged: %+v", name, lasts, s)
			}
		}
	}
}

// A full disk is waited for without an end: its remedy is known and said.
func TestAFullDiskIsWaitedForWithoutAnEnd(t *testing.T) {
	l := newLab()
	play(t, l, "node n1 gpus=1\nsubmit j workers=1..1 restarts=0")
	for range 100 {
		play(t, l, fullDisk)
		untilPhase(t, l, cluster.Starting, time.Minute)
	}
	play(t, l, readOnly)
	if s := nowOf(l); s.Phase != cluster.Backoff || s.Retries != 1 || s.Reason.Arg(reason.TryOf, "n") != "1" {
		t.Errorf("what fails for the first time after that: %+v", s)
	}
}

// What failed long ago does not count against what fails now.
func TestRetriesBeginAnew(t *testing.T) {
	l := newLab()
	play(t, l, "node n1 gpus=1\nsubmit j workers=1..1 restarts=0\n"+readOnly)
	untilPhase(t, l, cluster.Starting, time.Minute)
	play(t, l, readOnly)
	if s := nowOf(l); s.Retries != 2 {
		t.Fatalf("%+v", s)
	}
	untilPhase(t, l, cluster.Starting, time.Minute)
	play(t, l, "started j\nadvance 11m\n"+readOnly)
	if s := nowOf(l); s.Retries != 1 {
		t.Errorf("after eleven minutes of work: %+v", s)
	}
	untilPhase(t, l, cluster.Starting, time.Minute)
	play(t, l, "started j\noffer j step=3\n"+readOnly)
	if s := nowOf(l); s.Retries != 1 {
		t.Errorf("after a commit: %+v", s)
	}
}

// A node that has failed of what may pass is not excluded for longer than what it
// has said of it is kept: it looks no more then, and can no longer say that it is over.
func TestAnExcludedNodeIsTriedAgainOnceItsFailureIsNotKept(t *testing.T) {
	l := newLab()
	play(t, l, "node n1 gpus=1\nnode n2 gpus=1\nsubmit j workers=1..1 restarts=9\n"+readOnly+"\nstarted j")
	for range 2 {
		if s := nowOf(l); len(s.Passing) != 1 || s.Passing[0] != "n1" || s.Excluded["n1"] == "" {
			t.Fatalf("n1 has not said that it is over: %+v", s)
		}
		play(t, l, "failed j kind=worker rank=0 why=exit_status_1\nstopped j")
		untilPhase(t, l, cluster.Starting, 10*time.Minute)
		play(t, l, "started j")
	}
	if s := nowOf(l); len(s.Passing)+len(s.Excluded) > 0 {
		t.Errorf("n1's failure is no longer kept: %+v", s)
	}
}

// A node that is restarted to mend what it failed of is waited for; and one that
// was removed and joins again is tried again.
func TestANodeThatIsAwayWhileItIsMendedIsWaitedFor(t *testing.T) {
	const failure = "node n1 gpus=1\nnode n2 gpus=1\nsubmit j workers=1..1 restarts=0\n" + readOnly + "\ngone n1\nadvance 1m\n"
	const refusal = "failed j kind=node rank=-1 why=workdir_/w_does_not_exist\nstopped j\nadvance 1m\n"
	for what, story := range map[string]struct {
		away string
		then cluster.Phase
	}{
		"restarted": {"", cluster.Queued},
		"removed":   {"remove n1\n", cluster.Held},
	} {
		l := newLab()
		play(t, l, failure+story.away+refusal)
		if s := nowOf(l); s.Phase != story.then {
			t.Fatalf("%s: while n1 is away: %+v", what, s)
		}
		if what == "restarted" && !strings.Contains(nowOf(l).Reason.String(), "waits for n1 to be back (n1: read-only file system)") {
			t.Errorf("its owner is not told what it waits for: %s", nowOf(l).Reason)
		}
		play(t, l, "node n1 gpus=1\ncleared j n1 gen=1\nadvance 10s")
		if s := nowOf(l); s.Phase != cluster.Starting || s.Excluded["n1"] != "" {
			t.Errorf("%s: n1 is back and well: %+v", what, s)
		}
	}
}

// One that is back and not well yet is tried as any other.
func TestANodeThatIsBackAndNotWellIsTriedAgain(t *testing.T) {
	l := newLab()
	play(t, l, "node n1 gpus=1\nnode n2 gpus=1\nsubmit j workers=1..1 restarts=0\n"+readOnly+"\ngone n1\nadvance 1m\n"+
		"failed j kind=node rank=-1 why=workdir_/w_does_not_exist\nstopped j\nadvance 1m\nnode n1 gpus=1")
	if s := nowOf(l); s.Phase != cluster.Backoff || s.Retries != 1 {
		t.Fatalf("%+v", s)
	}
	untilPhase(t, l, cluster.Starting, time.Minute)
}
