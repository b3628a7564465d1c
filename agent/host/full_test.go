package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// disk makes dir a file system of so many kilobytes, which only root may.
func (f *fixture) disk(dir, kilobytes string) {
	f.Helper()
	if os.Geteuid() != 0 {
		f.Skip("a really full disk is a mount of the test's own, for which the kernel wants root")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+kilobytes+"k,mode=755"); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			f.Error(err)
		}
	})
}

// fill leaves so many bytes of a disk, and says how to give the rest back.
func (f *fixture) fill(dir string, leave int64) (free func()) {
	f.Helper()
	path := filepath.Join(dir, "filler")
	if err := os.WriteFile(path, make([]byte, 64<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		f.Fatalf("the disk is not full: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		f.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-leave); err != nil {
		f.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			f.Fatal(err)
		}
	}
}

// A lease that cannot be kept for a successor, because the disk is full, is no
// reason for an agent to end.
func TestLeaseWaitsForRoomToBeKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dir := filepath.Join(f.dir, "small")
	f.disk(dir, "512")
	data, err := openDataDir(filepath.Join(dir, "data"), "n1", "test")
	if err != nil {
		t.Fatal(err)
	}
	free := f.fill(dir, 0)
	log := &agenttest.Log{}
	l := &life{store: f.store, dir: data, node: record.AliveKey("n1"), cfg: Config{Node: "n1", TTL: time.Minute}, log: zerolog.New(log)}
	held := make(chan error, 1)
	go func() {
		_, _, err := l.hold(t.Context())
		held <- errors.Join(err, data.close())
	}()
	f.until("a word about it", func() bool { return strings.Contains(log.String(), "cannot keep the lease yet") })
	free()
	if err := <-held; err != nil {
		t.Error(err)
	}
	if kept, err := data.lease(); kept == 0 || err != nil {
		t.Errorf("kept %x, %v", kept, err)
	}
}

// saver is a plain script that saves steps of 512 KiB, each when it is told to by a file.
func saver() []string {
	return []string{"/bin/sh", "-c", `
save() {
	d="$BELLOWS_CHECKPOINT_DIR/step-$1"; mkdir -p "$d"; head -c 524288 /dev/zero > "$d/model" || return; echo "samples=$((8 * $1))" > "$d/COMPLETE"
}
trap 'exit 0' TERM
for step in 1 2 3; do [ $step -gt $BELLOWS_RESUME_STEP ] || continue; while [ ! -e "go-$BELLOWS_GENERATION-$step" ]; do sleep 0.02; done; save $step; done
while :; do sleep 0.02; done`}
}

func (f *fixture) tell(name string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), nil, 0o644); err != nil {
		f.Fatal(err)
	}
}

// committed has generation 1 save a step of half a megabyte, commits it as a
// leader does, and returns the job of the next generation.
func (f *fixture) committed() *job {
	f.Helper()
	j := f.job("big", saver(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	f.tell("go-1-1")
	offer := await[record.Offer](f, record.OfferKey("n1", j.Job, 1, 1))
	if offer.Bytes < 512<<10 || offer.Samples != 8 {
		f.Fatalf("offer %+v", offer)
	}
	f.commit(record.Put(record.CommittedKey(j.Job), offer.Checkpoint), record.Put(record.CheckpointKey(j.Job, 1), offer.Checkpoint))
	f.haltAs(j, nil, true)
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	f.commit(record.Delete(record.PermitKey(j.Job, 1)))
	next := *j
	next.Generation, next.Resume = 2, &offer.Checkpoint
	return &next
}

func TestNothingStartsWhereItsNextCheckpointWouldNotFit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := filepath.Join(f.dir, "ck")
	f.disk(base, "2048")
	f.agent(f.settings("n1"))
	j := f.committed()
	free := f.fill(base, 600<<10) // more than the last one, less than 1.2 times that
	f.waiting(j)
	f.start(j)
	failed := ack[record.Failed](f, j, "n1", record.AckFailed)
	if failed.Kind != record.NoSpace || failed.Rank != -1 {
		t.Errorf("failed %+v", failed)
	}
	for _, words := range []string{"checkpoint dir " + filepath.Join(base, "big"), "0.6 MiB are free", "needs 0.6 MiB", "make room", "starts again by itself"} {
		if !strings.Contains(failed.Reason, words) {
			t.Errorf("reason %q does not say %q", failed.Reason, words)
		}
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	if _, err := os.Stat(filepath.Join(j.Resume.Dir, "model")); err != nil {
		t.Errorf("the committed checkpoint: %v", err)
	}
	if f.staysAbsent(record.AckKey("n1", j.Job, 2, record.AckCleared)); t.Failed() {
		return
	}
	free()
	ack[record.Cleared](f, j, "n1", record.AckCleared)
	again := *j
	again.Generation = 3
	f.start(&again)
	ack[record.Started](f, &again, "n1", record.AckStarted)
}

// waiting records that the job waits after this generation, as a leader does.
func (f *fixture) waiting(j *job) {
	f.Helper()
	f.commit(record.Put(record.StateKey(j.Job), record.State{Phase: cluster.Backoff, Generation: j.Generation}))
}

// staysAbsent gives a record time to be written that is not to be: two looks and more.
func (f *fixture) staysAbsent(key string) {
	f.Helper()
	for end := time.Now().Add(6 * testProbeEvery); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if !f.absent(key) {
			f.Errorf("there is %s", key)
			return
		}
	}
}

// A node on which a file system is read-only says that it cannot run the job now,
// and says so when that is over, also for an agent that was started since.
func TestAReadOnlyDiskIsToldToBeOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := filepath.Join(f.dir, "ck")
	f.disk(base, "2048")
	s := f.settings("n1")
	stop := f.agent(s)
	j := f.job("still", sleeper(), map[string]int{"n1": 1}, "n1")
	remount := func(flags uintptr) {
		if err := syscall.Mount("tmpfs", base, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	f.waiting(j)
	f.start(j)
	if failed := ack[record.Failed](f, j, "n1", record.AckFailed); failed.Kind != record.Transient || !strings.Contains(failed.Reason, "read-only file system") {
		t.Errorf("failed %+v", failed)
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	f.staysAbsent(record.AckKey("n1", j.Job, 1, record.AckCleared))
	stop()
	f.agent(s)
	remount(0)
	ack[record.Cleared](f, j, "n1", record.AckCleared)
	left, err := os.ReadDir(base)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("the looks have left %s", e.Name())
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// What a generation has left when it was killed in the middle of a save is removed
// before the next one is refused for want of room.
func TestLeftoversMakeRoomForTheNextGeneration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := filepath.Join(f.dir, "ck")
	f.disk(base, "2048")
	f.agent(f.settings("n1"))
	j := f.committed()
	torn := filepath.Join(base, "big", "g00000001", "step-9")
	if err := os.MkdirAll(torn, 0o755); err != nil {
		t.Fatal(err)
	}
	f.fill(torn, 100<<10)
	f.start(j)
	ack[record.Started](f, j, "n1", record.AckStarted)
	if _, err := os.Stat(torn); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the torn save: %v", err)
	}
	if _, err := os.Stat(filepath.Join(j.Resume.Dir, "model")); err != nil {
		t.Errorf("the committed checkpoint: %v", err)
	}
}

// While a job runs, people are told that its next checkpoint will not fit, and
// that one was lost; with room again everything is as before.
func TestAFullDiskIsToldWhileTheJobRunsOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := filepath.Join(f.dir, "ck")
	f.disk(base, "2560")
	f.agent(f.settings("n1"))
	j := f.committed()
	f.start(j)
	ack[record.Started](f, j, "n1", record.AckStarted)
	free := f.fill(base, 516<<10) // the next one fits, its manifest does not
	f.problem(j, "0.5 MiB are free", "needs 0.6 MiB")
	f.tell("go-2-2")
	f.until("step 2 to be written", func() bool {
		_, err := os.Stat(filepath.Join(base, "big", "g00000002", "step-2", "COMPLETE"))
		return err == nil
	})
	f.problem(j, "checkpoint of step 2 is lost", "no space left on device")
	f.until("an event", func() bool {
		kvs, _, err := f.store.Range(f.Context(), record.NodeEventsPrefix("n1"))
		return err == nil && slices.ContainsFunc(kvs, func(kv record.KV) bool {
			return strings.Contains(string(kv.Value), `"save-lost"`) && strings.Contains(string(kv.Value), "checkpoint of step 2 is lost")
		})
	})
	if !f.absent(record.AckKey("n1", j.Job, 2, record.AckFailed)) {
		t.Error("it is called a failure")
	}
	free()
	f.tell("go-2-3")
	offer := await[record.Offer](f, record.OfferKey("n1", j.Job, 2, 3))
	if offer.Samples != 24 {
		t.Errorf("offer %+v", offer)
	}
	f.until("no problem", func() bool {
		return len(await[record.Progress](f, record.ProgressKey("n1")).Problems) == 0
	})
	if _, err := os.Stat(filepath.Join(j.Resume.Dir, "model")); err != nil {
		t.Errorf("the committed checkpoint: %v", err)
	}
}

// problem waits until the node tells of a problem in these words.
func (f *fixture) problem(j *job, words ...string) {
	f.Helper()
	f.until("a problem that says "+strings.Join(words, ", "), func() bool {
		kv, exists, err := f.store.Get(f.Context(), record.ProgressKey("n1"))
		if err != nil || !exists {
			return false
		}
		for _, w := range words {
			if !strings.Contains(string(kv.Value), w) {
				return false
			}
		}
		return strings.Contains(string(kv.Value), string(j.Job))
	})
}

// The agent's own disk is full: the job is told so, and starts once it is not.
func TestAFullDiskOfTheAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	runs := filepath.Join(s.Dir, "r")
	f.disk(runs, "1024")
	f.agent(s)
	free := f.fill(runs, 0)
	j := f.job("unlucky", sleeper(), map[string]int{"n1": 1}, "n1")
	f.waiting(j)
	f.start(j)
	failed := ack[record.Failed](f, j, "n1", record.AckFailed)
	if failed.Kind != record.NoSpace || !strings.Contains(failed.Reason, "no space left on device") {
		t.Errorf("failed %+v", failed)
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	f.staysAbsent(record.AckKey("n1", j.Job, 1, record.AckCleared))
	free()
	ack[record.Cleared](f, j, "n1", record.AckCleared)
	again := *j
	again.Generation = 2
	f.start(&again)
	ack[record.Started](f, &again, "n1", record.AckStarted)
}
