package saves

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/recordtest"
)

// An agent that runs as root sees a job's checkpoints with its owner's eyes.
func TestCheckpointTasksRunAsTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can read as another user, and only that is tested here")
	}
	const ordinary = 65534
	// The test's own directories are closed to others.
	base := filepath.Join("/tmp", fmt.Sprintf("bellows-task-%d", os.Getpid()))
	root := filepath.Join(base, "job")
	if err := os.MkdirAll(filepath.Join(root, "g00000001"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self) // which is `internal digest`, too
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(base, "bellows")
	if err = os.WriteFile(copied, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"mine": 0o600, "others": 0o600} {
		path := filepath.Join(root, "g00000001", name)
		if err = os.WriteFile(path, []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, own := range []string{root, filepath.Join(root, "g00000001"), filepath.Join(root, "g00000001", "mine")} {
		if err = os.Chown(own, ordinary, ordinary); err != nil {
			t.Fatal(err)
		}
	}

	sv := New(loop.New(t.Context(), zerolog.Nop()), Config{Exe: copied}, nil)
	in := Folder{Owner: cluster.Owner{UID: ordinary, GID: ordinary, User: "nobody"}}
	task := dirblob.Task{Root: root, Digest: &dirblob.Digest{Dir: "g00000001"}}
	if _, err = sv.Tasks.Do(t.Context(), in, task, lookBound); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("root's own file was read for another user: %v", err)
	}
	if err = os.Remove(filepath.Join(root, "g00000001", "others")); err != nil {
		t.Fatal(err)
	}
	answer, err := sv.Tasks.Do(t.Context(), in, task, lookBound)
	if err != nil || len(answer.Files) != 1 || answer.Files[0].Path != "mine" {
		t.Errorf("%+v, %v", answer, err)
	}
}

// A child that was left keeps away its own job's tasks of its kind, and no others.
func TestRunnersAreOneForEachJobAndKind(t *testing.T) {
	var c children
	first, done := c.of("a", "probe")
	again, doneAgain := c.of("a", "probe")
	if first != again {
		t.Error("two runners of one job and kind")
	}
	for _, key := range []childKey{{"b", "probe"}, {"a", "digest"}} {
		other, doneOther := c.of(key.job, key.kind)
		if other == first {
			t.Errorf("%v shares a runner", key)
		}
		doneOther()
	}
	done()
	if len(c.runners) != 1 {
		t.Errorf("%d runners are kept, want that in use", len(c.runners))
	}
	if doneAgain(); len(c.runners) != 0 {
		t.Errorf("%d runners are kept without a user", len(c.runners))
	}
}

// A child that was left may end when nothing asks for its runner any more.
func TestRunnersOfChildrenThatEndedAreDropped(t *testing.T) {
	t.Parallel()
	ended := childKey{"ended", "digest"}
	c := children{runners: map[childKey]*childRunner{ended: {}, {"busy", "digest"}: {users: 1}}}
	_, done := c.of("another", "digest")
	defer done()
	if len(c.runners) != 2 || c.runners[ended] != nil {
		t.Errorf("%d runners are kept, want those in use", len(c.runners))
	}
}

// A user database that does not answer costs no save: the work is tried again, and never
// without the owner's groups.
func TestATaskWaitsForTheUserDatabase(t *testing.T) {
	t.Parallel()
	other := cluster.Owner{UID: uint32(os.Geteuid()) + 1, User: "ann"} //nolint:gosec // a uid is not negative
	sv := New(loop.New(t.Context(), zerolog.Nop()), Config{Exe: "/no/such/program"}, nil)
	synctest.Test(t, func(t *testing.T) {
		asked, away := 0, 3
		ts := &Tasks{Loop: sv.Loop, exe: sv.Tasks.exe, ask: func(_ context.Context, o cluster.Owner) (*syscall.Credential, error) {
			if asked++; asked <= away {
				return nil, fmt.Errorf("owner %s: %w", o.User, userdb.ErrNoAnswer)
			}
			return &syscall.Credential{Uid: o.UID, Gid: 7}, nil
		}}
		in, task := Folder{Owner: other}, dirblob.Task{Root: "/ck", Room: true}
		if _, err := ts.Do(t.Context(), in, task, lookBound); !errors.Is(err, userdb.ErrNoAnswer) || asked != 1 {
			t.Errorf("one attempt: %v, asked %d times", err, asked)
		}
		// Only the work itself fails in the end: there is no such program.
		if _, err := ts.persevere(t.Context(), in, task); errors.Is(err, userdb.ErrNoAnswer) || !errors.Is(err, os.ErrNotExist) || asked != away+1 {
			t.Errorf("a save: %v, asked %d times", err, asked)
		}
		asked, away = 0, math.MaxInt
		begun := time.Now()
		if _, err := ts.persevere(t.Context(), in, task); !errors.Is(err, userdb.ErrNoAnswer) || time.Since(begun) < taskBound {
			t.Errorf("a database that is gone for good: %v after %s", err, time.Since(begun))
		}
	})
}

// The last look for what a plain script has saved waits for the user database, too.
func TestTheLastLookWaitsForTheUserDatabase(t *testing.T) {
	t.Parallel()
	sv := New(loop.New(t.Context(), zerolog.Nop()), Config{}, nil)
	for fault, want := range map[error]bool{userdb.ErrNoAnswer: true, os.ErrPermission: false} {
		r := &Run{}
		r.failing = time.Now().Add(-2 * lookAgain)
		if again := sv.cannotLook(r, record.JobGen{}, fmt.Errorf("look: %w", fault)); again != want {
			t.Errorf("%v: again is %t", fault, again)
		}
	}
}

// A checkpoint that others could exchange is none that may become one by waiting.
func TestNothingIsResumedThatOthersCouldExchange(t *testing.T) {
	t.Parallel()
	job := filepath.Join(t.TempDir(), "job")
	step := filepath.Join(job, "g00000001", "step-5")
	if err := errors.Join(os.MkdirAll(step, 0o755), os.Chmod(step, 0o777)); err != nil {
		t.Fatal(err)
	}
	sv := New(loop.New(t.Context(), zerolog.Nop()), Config{}, nil)
	self := uint32(os.Geteuid()) //nolint:gosec // a uid is not negative
	in := Folder{
		Owner: cluster.Owner{UID: self}, Path: filepath.Join(job, "g00000002"),
		Resume: &record.Checkpoint{Generation: 1, Step: 5, Dir: step},
	}
	begun := time.Now()
	_, failed := sv.examine(t.Context(), in, dirblob.Verify{})
	if failed == nil || failed.Kind != record.NodeRefused || !strings.Contains(failed.Reason, step+" has mode 0777") {
		t.Errorf("%+v", failed)
	}
	if time.Since(begun) > unseenFor/2 {
		t.Error("it was looked at again and again")
	}
}

func TestCheckpointsLieInTheirGenerationsDirectory(t *testing.T) {
	t.Parallel()
	in := Folder{Path: "/ck/job/g00000003"}
	for dir, want := range map[string]string{
		"/ck/job/g00000003/step-000000000007": "g00000003/step-000000000007",
		"/ck/job/g00000003":                   "g00000003",
		"/ck/job/g00000002/step-7":            "",
		"/ck/job/g00000003/../../../etc":      "",
		"step-7":                              "",
		"/etc":                                "",
	} {
		got, err := in.relative(dir)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", dir, got, err, want)
		}
	}
}

// The test binary is also what works on checkpoints as their owner.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "internal" && os.Args[2] == "digest" {
		if err := dirblob.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Whatever is recorded of a job and reported of a run, what is to be kept of its checkpoints names at least one, or is not known.
func TestRecordsMadeWrongDeleteNothing(t *testing.T) {
	t.Parallel()
	sample := recordtest.Sample(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	known := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		kvs, _ := recordtest.Wrong(rng, sample, 1+rng.IntN(20), func(string) bool { return false })
		mirror, _ := record.NewMirror(kvs, int64(len(kvs))) // what cannot be read is left out
		if mirror == nil {
			continue
		}
		for _, id := range mirror.JobIDs() {
			job := mirror.Job(id)
			for n, generation := range job.Generations {
				plan := generation.Plan.Value
				g := Generation{
					Of: record.JobGen{Job: id, Generation: n}, Job: job, Listed: true, Report: &run.Report{Workers: []record.Worker{{}}},
					Order: run.Order{Node: "n1", World: plan.World, Checkpoint: "/c/" + string(id) + "/g00000002-" + plan.World.Nonce, Resume: plan.Resume},
				}
				if len(plan.World.Members) > 0 {
					g.Order.Node = plan.World.Members[0].Node
				}
				sv := New(loop.New(t.Context(), zerolog.Nop()), Config{Node: g.Order.Node}, nil)
				keep, ok := sv.kept(g)
				if ok {
					known++
				}
				if ok && len(keep.Keep) == 0 {
					t.Fatalf("seed %d: nothing of %s is to be kept", seed, id)
				}
				NewRun().lastBytes(g)
				for _, c := range job.Checkpoints {
					_, _ = g.folder().relative(c.Value.Dir)
				}
			}
		}
	}
	if known < 100 {
		t.Errorf("it was known %d times what is to be kept: this tests little", known)
	}
}
