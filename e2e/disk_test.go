package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// smallDisk mounts a file system of a few MiB in the fleet's directory.
func (p *place) smallDisk(name string, mib int) string {
	p.t.Helper()
	dir := filepath.Join(p.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // jobs of all users save there
		p.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=755", mib)); err != nil {
		p.t.Fatalf("mount a small disk: %v: this test needs the right to mount", err)
	}
	p.t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			p.t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill leaves a disk without a free byte and returns the file that took them all. It may be
// repeated: what is deleted meanwhile makes room.
func (p *place) fill(dir string) string {
	p.t.Helper()
	path := filepath.Join(dir, "ballast")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, zeroes{}); !errors.Is(err, syscall.ENOSPC) {
		p.t.Fatalf("fill the disk: %v", err)
	}
	return path
}

// makeRoom takes the ballast off a full disk. It truncates the file and does not remove it: that
// makes room even where another process still has the file open.
func (p *place) makeRoom(ballast string) {
	p.t.Helper()
	info, err := os.Stat(ballast)
	if err == nil {
		err = os.Truncate(ballast, 0)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(ballast, &s); err != nil {
		p.t.Fatal(err)
	}
	if free := int64(s.Bavail) * s.Bsize; free < info.Size()/2 { //nolint:gosec // a small disk
		p.t.Fatalf("%d bytes are free on the disk of %s without its %d", free, ballast, info.Size())
	}
}

// zeroes is an endless file.
type zeroes struct{}

// Read implements io.Reader.
func (zeroes) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// A disk that fills up costs the steps since the last checkpoint and nothing
// else: the job says what is missing, waits, and goes on once there is room.
func TestFullDiskIsWaitedOut(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{})
	disk := f.smallDisk("disk", 16)
	j := f.sdkJob("big", 1, 1, 1<<30, 0.02, "--save-every", "50", "--state-bytes", "1000000")
	j["checkpoint-dir"] = filepath.Join(disk, "ckpt")
	id := f.submit(j)
	f.await("a checkpoint", func(m *record.Mirror) bool { return m.Job(id).Committed.Exists() })

	ballast := f.fill(disk)
	status := f.awaitShown(id, "that it waits for room", func(s api.JobStatus) bool {
		f.fill(disk) // an older checkpoint may have gone
		return !s.Phase.Active()
	})
	for _, want := range []string{"make room", filepath.Join(disk, "ckpt", string(id))} {
		if !strings.Contains(status.Reason, want) {
			t.Errorf("it waits because %q, which lacks %q", status.Reason, want)
		}
	}
	f.eventually("a submission that would save there to be refused", func() bool {
		f.fill(disk) // the save that did not fit may have gone
		_, errs, code := f.bellows("run", "--checkpoint-dir", filepath.Join(disk, "ckpt"), "--", "true")
		return code == 2 && strings.Contains(errs, "no space left on device; make room, or choose another")
	})
	kept := f.mirror().Job(id).Committed.Value
	if _, err := os.Stat(filepath.Join(kept.Dir, "MANIFEST.json")); err != nil {
		t.Errorf("the last checkpoint is gone: %v", err)
	}

	f.makeRoom(ballast)
	f.goesOn(id, "the disk was emptied")
	m := f.await("a checkpoint after that", func(m *record.Mirror) bool { return m.Job(id).Committed.Value.Step > kept.Step })
	if s := m.Job(id).State.Value; s.Restarts != 0 {
		t.Errorf("the full disk was charged to the job: %+v", s)
	}
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
	batches(t, f.trace("big")) // no step is missing
}

// goesOn waits for a job to start, which the coordinator's stories demand a second after
// its node has seen that what was wrong has passed. Here other tests want the machine too.
func (f *fleet) goesOn(id cluster.JobID, after string) {
	f.t.Helper()
	since := time.Now()
	f.await("its start", func(m *record.Mirror) bool { return m.Job(id).State.Value.Phase.Active() })
	f.t.Logf("it started %.1f s after %s", time.Since(since).Seconds(), after)
}

// A checkpoint directory that is read-only for a while holds no job: it says why
// it waits and with which bound, and goes on by itself.
func TestReadOnlyDiskIsWaitedOut(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{})
	disk := f.smallDisk("disk", 16)
	remount := func(flags uintptr) {
		if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	j := f.sdkJob("blip", 1, 1, 1<<30, 0.02, "--save-every", "50", "--state-bytes", "100000")
	j["checkpoint-dir"] = filepath.Join(disk, "ckpt")
	id := f.submit(j)
	f.await("a checkpoint", func(m *record.Mirror) bool { return m.Job(id).Committed.Exists() })

	remount(unix.MS_RDONLY)
	status := f.awaitShown(id, "that it waits", func(s api.JobStatus) bool { return s.Phase == cluster.Backoff })
	for _, want := range []string{"cannot run now: n1: ", filepath.Join(disk, "ckpt", string(id)), "starts again by itself; try ", " of 60, then it is held"} {
		if !strings.Contains(status.Reason, want) {
			t.Errorf("it waits because %q, which lacks %q", status.Reason, want)
		}
	}
	kept := f.mirror().Job(id).Committed.Value
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if phase := f.mirror().Job(id).State.Value.Phase; phase == cluster.Held || phase.Terminal() {
			t.Fatalf("it is %s", phase)
		}
	}
	remount(0)
	f.goesOn(id, "the directory was writable again")
	m := f.await("a checkpoint after that", func(m *record.Mirror) bool { return m.Job(id).Committed.Value.Step > kept.Step })
	if s := m.Job(id).State.Value; s.Restarts != 0 || len(s.Excluded) > 0 {
		t.Errorf("the read-only directory was charged to the job: %+v", s)
	}
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
	batches(t, f.trace("blip")) // no step is missing
}

// A stop whose save does not fit is not held up, keeps the checkpoint before and says what is lost.
func TestStopOnAFullDisk(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{})
	disk := f.smallDisk("disk", 16)
	j := f.bigSaver("big", 4_000_000, 20)
	j["checkpoint-dir"] = filepath.Join(disk, "ckpt")
	id := f.submit(j)
	m := f.await("a checkpoint", func(m *record.Mirror) bool { return m.Job(id).Committed.Exists() })
	kept := m.Job(id).Committed.Value
	f.fill(disk)
	f.stop(id)
	s := f.awaitPhase(id, cluster.Stopped)
	now := f.mirror().Job(id).Committed.Value
	if now != kept {
		t.Errorf("on a full disk %+v was committed after %+v", now, kept)
	}
	if _, err := os.Stat(filepath.Join(kept.Dir, "MANIFEST.json")); err != nil {
		t.Errorf("the last checkpoint is gone: %v", err)
	}
	for _, want := range []string{"stopped by root; lost: ", " since its last checkpoint; ", "make room for $BELLOWS_CHECKPOINT_DIR"} {
		if !strings.Contains(s.Reason.String(), want) {
			t.Errorf("it ended because %q, which lacks %q", s.Reason, want)
		}
	}
	f.nothingLeft(id)
}

// A checkpoint directory that the job's owner cannot write to is told before anything starts.
func TestCheckpointDirectoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{})
	dir := f.owned("roots", 0)
	s := f.as(ordinary, "run", "-d", "--max", "1", "--checkpoint-dir", dir, "--", "true")
	if want := "--checkpoint-dir " + dir + ": cannot be written to: permission denied; make it writable, or choose another"; s.wait() != 2 || !strings.Contains(s.said(), want) {
		t.Errorf("exit %d, %s\nwant %s", s.wait(), s.said(), want)
	}

	// It was writable when the job was submitted, and is not when it starts.
	f.kill("coordinator-1")
	dir = f.owned("mine", ordinary)
	s = f.as(ordinary, "run", "-d", "--name", "locked", "--max", "1", "--checkpoint-dir", dir, "--", "true")
	if s.wait() != 0 {
		t.Fatal(s.said())
	}
	id := cluster.JobID(strings.TrimSpace(s.out.String()))
	if err := os.Chown(dir, 0, 0); err != nil {
		t.Fatal(err)
	}
	f.startCoordinator(2)
	status := f.awaitPhase(id, cluster.Held)
	for _, want := range []string{"cannot run on any node: n1: ", dir, "permission denied", "choose a base directory that the owner can write to on every node"} {
		if !strings.Contains(status.Reason.String(), want) {
			t.Errorf("the reason %q lacks %q", status.Reason, want)
		}
	}
	f.nothingLeft(id)
}

// A checkpoint with a link out of its directory is not one: it could bring
// anything back at the next start. The job is told and trains on.
func TestLinkOutOfACheckpoint(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	id := f.submit(f.shellJob("linked", `trap 'exit 0' TERM
cd "$BELLOWS_CHECKPOINT_DIR"
mkdir step-5 step-7 && ln -s /etc/passwd step-5/out && touch step-5/COMPLETE
echo waiting; while [ ! -e go ]; do sleep 0.1; done
echo good > step-7/state && touch step-7/COMPLETE
while :; do sleep 0.1; done
`))
	status := f.awaitShown(id, "that a checkpoint is refused, while it runs", func(s api.JobStatus) bool {
		return s.Phase == cluster.Running && len(s.Problems) > 0
	})
	gen := layout.Generation(1, f.nonce(id, 1))
	want := "the checkpoint of step 5 is lost: digest step 5: list " + gen + "/step-5/out: it is a link or a special file: save plain files only"
	if p := status.Problems[0]; p.Node != "n1" || p.Text != want {
		t.Errorf("problem %+v, want %s", p, want)
	}
	if out, _, _ := f.bellows("show", "linked"); !strings.Contains(out, "the checkpoint of step 5 is lost") {
		t.Errorf("show does not tell:\n%s", out)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "ckpt", string(id), gen, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.await("the next one", func(m *record.Mirror) bool { return m.Job(id).Committed.Value.Step == 7 })
	if _, there := f.mirror().Job(id).Checkpoints[5]; there {
		t.Error("the one with the link was committed too")
	}
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
}

// A script that lets all users write to what it saves is told so while it runs, and
// nothing of that is committed until it is mended.
func TestSavesThatAllCanWriteToAreRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	id := f.submit(f.shellJob("open", `trap 'exit 0' TERM
umask 000
cd "$BELLOWS_CHECKPOINT_DIR"
mkdir step-5 && echo weights > step-5/state && touch step-5/COMPLETE
while [ ! -e go ]; do sleep 0.1; done
chmod -R go-w .
while :; do sleep 0.1; done
`))
	status := f.awaitShown(id, "that a checkpoint is refused", func(s api.JobStatus) bool { return len(s.Problems) > 0 })
	gen := f.mirror().Job(id).Generation(1).Plan.Value.World
	dir := filepath.Join(f.dir, "ckpt", string(id), layout.Generation(1, gen.Nonce))
	for _, want := range []string{"nothing that it saves is kept: ", dir + "/step-5 has mode 0777", "chmod -R go-w it", "umask of 022"} {
		if p := status.Problems[0]; !strings.Contains(p.Text, want) {
			t.Errorf("problem %+v lacks %q", p, want)
		}
	}
	if f.mirror().Job(id).Committed.Exists() {
		t.Error("it was committed")
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.await("the checkpoint", func(m *record.Mirror) bool { return m.Job(id).Committed.Value.Step == 5 })
	f.awaitShown(id, "no problem any more", func(s api.JobStatus) bool { return len(s.Problems) == 0 })
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
}
