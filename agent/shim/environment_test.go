package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

func TestTheEnvironmentIsExact(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, `cat /proc/self/environ | tr '\0' '\n' | sort > env-$RANK.tmp; mv env-$RANK.tmp env-$RANK`)
	f.order.World.Members = append([]cluster.Member{{Node: "n0", Devices: []cluster.DeviceID{"SIM-8", "SIM-9"}}}, f.order.World.Members...)
	f.order.World.Members[1].FirstRank = 2
	f.order.Env = map[string]string{
		"PATH": "/usr/bin:/bin", "HOME": "/home/ada", "WEIRD": "a b\tc=ü", "PYTHONPATH": "/lib/mine", "RANK": "99", "EMPTY": "",
	}
	f.order.RestartCount = 2
	f.order.Training = run.Training{BaseBatch: 32, MicroBatch: 4, LogicalWorkers: 8, LRRule: "sqrt", LRWarmup: 20}
	f.order.Resume = &record.Checkpoint{Dir: "/c/step-7", Step: 7, Samples: 448}
	agenttest.Write(t, filepath.Join(f.order.Checkpoint, precheck.MeetingFile), // rank 0 is elsewhere
		fmt.Sprintf("job=train-abcdef generation=3 master=%s node=n0\n", f.order.World.Master), 0o644)
	if r := f.start().stopped(); !r.Stopped.Finished {
		t.Fatalf("failed %+v", r.Failed)
	}
	want := fmt.Sprintf(`BELLOWS_BASE_BATCH_SIZE=32
BELLOWS_BATCH_SIZE=64
BELLOWS_CHECKPOINT_DIR=%[1]s/ckpt/train-abcdef/g00000003
BELLOWS_DEVICE=SIM-1
BELLOWS_DEVICES=4
BELLOWS_GENERATION=3
BELLOWS_JOB=train-abcdef
BELLOWS_LOCAL_DEVICES=2
BELLOWS_LOGICAL_WORKERS=8
BELLOWS_LR_RULE=sqrt
BELLOWS_LR_WARMUP=20
BELLOWS_MICRO_BATCH=4
BELLOWS_NODE=n1
BELLOWS_RESUME_FROM=/c/step-7
BELLOWS_RESUME_SAMPLES=448
BELLOWS_RESUME_STEP=7
BELLOWS_WORKER_SOCKET=%[1]s/run/worker.sock
CUDA_VISIBLE_DEVICES=SIM-0,SIM-1
EMPTY=
GROUP_RANK=1
HOME=/home/ada
LOCAL_RANK=1
LOCAL_WORLD_SIZE=2
MASTER_ADDR=127.0.0.1
MASTER_PORT=%[2]d
PATH=/usr/bin:/bin
PWD=%[1]s/work
PYTHONPATH=%[1]s/run/python:/lib/mine
PYTHONUNBUFFERED=1
RANK=3
TORCHELASTIC_RESTART_COUNT=2
TORCHELASTIC_RUN_ID=train-abcdef
WEIRD=a b	c=ü
WORLD_SIZE=4
`, f.root, f.order.World.Master.Port)
	// The shell itself adds PWD; ours stand in the order of their names.
	got := strings.Split(f.awaitFile("env-3"), "\n")
	wanted := strings.Split(want, "\n")
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("environment:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	}
}

func TestWithoutACheckpointThereIsNothingToResume(t *testing.T) {
	f := newFixture(t, 1, "")
	env := run.Listed(f.order.Environment(f.dir, 0))
	for _, want := range []string{"BELLOWS_RESUME_FROM=", "BELLOWS_RESUME_STEP=0", "BELLOWS_RESUME_SAMPLES=0", "PYTHONPATH=" + f.dir + "/python"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not in %q", want, env)
		}
	}
}

func TestOneProcessHasAllDevicesOfItsNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, `env > env.tmp; mv env.tmp env-$RANK`)
	f.order.World.Members = []cluster.Member{
		{Node: "n0", Devices: []cluster.DeviceID{"SIM-7", "SIM-8", "SIM-9"}, OneProcess: true},
		{Node: "n1", Devices: []cluster.DeviceID{"SIM-0", "SIM-1"}, FirstRank: 1, OneProcess: true},
	}
	agenttest.Write(t, filepath.Join(f.order.Checkpoint, precheck.MeetingFile), // rank 0 is elsewhere
		fmt.Sprintf("job=train-abcdef generation=3 master=%s node=n0\n", f.order.World.Master), 0o644)
	r := f.start().stopped()
	if !r.Stopped.Finished || len(r.Workers) != 1 || len(r.Stopped.Exits) != 1 || r.Workers[0].Rank != 1 {
		t.Fatalf("failed %+v, workers %+v", r.Failed, r.Workers)
	}
	got := f.awaitFile("env-1")
	for _, want := range []string{
		"RANK=1", "LOCAL_RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1", "GROUP_RANK=1", "CUDA_VISIBLE_DEVICES=SIM-0,SIM-1",
		"BELLOWS_DEVICE=SIM-0,SIM-1", "BELLOWS_LOCAL_DEVICES=2", "BELLOWS_DEVICES=5",
	} {
		if !strings.Contains("\n"+got, "\n"+want+"\n") {
			t.Errorf("the environment lacks %s:\n%s", want, got)
		}
	}
	f.retire()
}

func TestAnUnknownPositionIsNotZero(t *testing.T) {
	f := newFixture(t, 1, "")
	f.order.Resume = &record.Checkpoint{Step: 7, Samples: -1, Dir: "/c/step-7"}
	if env := run.Listed(f.order.Environment(f.dir, 0)); !slices.Contains(env, "BELLOWS_RESUME_SAMPLES=") || !slices.Contains(env, "BELLOWS_RESUME_STEP=7") {
		t.Errorf("got %q", env)
	}
}

// What a worker has of the shim: its standard streams, a session of its own, and
// none of the shim's files, locks or signal settings.
func TestWorkersInheritNothingElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "").python(`
import os
out = []
for fd in sorted(int(n) for n in os.listdir("/proc/self/fd")):
    try: out.append("%d %s" % (fd, os.readlink("/proc/self/fd/%d" % fd)))
    except FileNotFoundError: pass
status = dict(l.rstrip("\n").split(":\t", 1) for l in open("/proc/self/status") if ":\t" in l)
out.append("session %s" % (os.getsid(0) == os.getpid()))
out.append("cwd " + os.getcwd())
out.append("umask " + status["Umask"])
out.append("blocked " + status["SigBlk"])
rank = os.environ["RANK"]
open("has-%s.tmp" % rank, "w").write("\n".join(out) + "\n")
os.rename("has-%s.tmp" % rank, "has-" + rank)
`).start()
	f.stopped()
	got := strings.Split(strings.TrimSpace(f.awaitFile("has-1")), "\n")
	want := []string{"session True", "cwd " + f.order.Workdir, "umask 0022", "blocked 0000000000000000"}
	if len(got) != len(want)+3 || got[0] != "0 /dev/null" || !strings.HasPrefix(got[1], "1 pipe:") ||
		strings.TrimPrefix(got[1], "1 ") != strings.TrimPrefix(got[2], "2 ") || !slices.Equal(got[3:], want) {
		t.Errorf("the worker has\n%s\nwant standard streams and\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	f.retire()
}

// giveTo makes the fixture's places a user's, as that user's home would be.
func (f *fixture) giveTo(uid, gid uint32) *fixture {
	f.t.Helper()
	agenttest.NeedsRoot(f.t)
	base := filepath.Dir(filepath.Dir(f.order.Checkpoint))
	if err := os.MkdirAll(base, 0o700); err != nil {
		f.t.Fatal(err)
	}
	for _, path := range []string{f.order.Workdir, base} {
		if err := os.Chown(path, int(uid), int(gid)); err != nil {
			f.t.Fatal(err)
		}
	}
	return f
}

func TestWorkersRunAsTheirOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, `
id -u > who; id -g >> who; cat /etc/shadow > /dev/null 2>&1 && echo shadow >> who
umask >> who
exec /usr/bin/python3 -c '
import bellows, os
def write(d): open(d + "/x", "w").close()
bellows.should_stop(0)
bellows.save(1, write)
open("done", "w").write("saved\n")'`).giveTo(1, 1)
	f.order.Owner = cluster.Owner{UID: 1, GID: 1, User: "daemon"}
	r := f.start().stopped()
	if !r.Stopped.Finished || len(r.Saves) != 1 {
		t.Fatalf("failed %+v, saves %v, log %s", r.Failed, r.Saves, f.read("logs", "rank-0.log"))
	}
	if got := f.awaitFile("who"); got != "1\n1\n0022\n" {
		t.Errorf("runs as %q", got)
	}
	info, err := os.Stat(filepath.Join(f.order.Checkpoint, precheck.MeetingFile))
	if err != nil {
		t.Fatal(err)
	}
	if owner := fmt.Sprint(info.Sys()); !strings.Contains(owner, " 1 1 ") {
		t.Errorf("the checkpoint's note belongs to %s", owner)
	}
	f.retire()
}

// A change of user clears the parent death signal, unless it is set afterwards.
func TestOtherUsersWorkersDieWithTheShimToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo up > up-0; while :; do sleep 0.02; done").giveTo(1, 1)
	f.order.Owner = cluster.Owner{UID: 1, GID: 1, User: "daemon"}
	r := f.start().started()
	f.awaitFile("up-0")
	f.killShim()
	f.gone("the worker", f.worker(r, 0))
}

func TestTheOwnersRightsCountAndNotTheShims(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f *fixture) error{
		"workdir": func(f *fixture) error { return os.Chmod(f.order.Workdir, 0o600) },
		"checkpoint_dir": func(f *fixture) error {
			return os.Chmod(filepath.Dir(filepath.Dir(f.order.Checkpoint)), 0o500)
		},
		"command": func(f *fixture) error {
			path := filepath.Join(f.root, "mine")
			f.order.Command = []string{path}
			return os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700)
		},
		"run directory": func(f *fixture) error { return os.Chmod(f.root, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "exit 0").giveTo(1, 1)
			f.order.Owner = cluster.Owner{UID: 1, GID: 1, User: "daemon"}
			if err := spoil(f); err != nil {
				t.Fatal(err)
			}
			r := f.start().stopped()
			if r.Failed == nil || r.Failed.Kind != record.NodeRefused || !strings.HasPrefix(r.Failed.Reason, name) ||
				!strings.Contains(r.Failed.Reason, "permission denied") {
				t.Errorf("failed %+v", r.Failed)
			}
		})
	}
}

// What Python prints is there at once, unless the job wants otherwise.
func TestPythonKeepsNoLinesBack(t *testing.T) {
	f := newFixture(t, 1, "")
	if env := run.Listed(f.order.Environment(f.dir, 0)); !slices.Contains(env, "PYTHONUNBUFFERED=1") {
		t.Errorf("Python would keep its lines: %q", env)
	}
	f.order.Env = map[string]string{"PYTHONUNBUFFERED": ""}
	if env := run.Listed(f.order.Environment(f.dir, 0)); !slices.Contains(env, "PYTHONUNBUFFERED=") {
		t.Errorf("the job's own does not win in %q", env)
	}
}

// The node's network interface is a default: who submits may know better.
func TestTheTrainingInterfaceIsTold(t *testing.T) {
	f := newFixture(t, 1, "")
	f.order.Interface = "ib0"
	f.order.Env = map[string]string{"GLOO_SOCKET_IFNAME": "eth9"}
	env := run.Listed(f.order.Environment(f.dir, 0))
	for _, want := range []string{"NCCL_SOCKET_IFNAME==ib0", "GLOO_SOCKET_IFNAME=eth9"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not in %q", want, env)
		}
	}
}

// Where none was named, Gloo is told the one with the node's address, and NCCL, which finds
// better ones by itself, nothing.
func TestTheBoundInterfaceIsTold(t *testing.T) {
	f := newFixture(t, 1, "")
	f.order.Bound = "eth0"
	env := run.Listed(f.order.Environment(f.dir, 0))
	if !slices.Contains(env, "GLOO_SOCKET_IFNAME=eth0") {
		t.Errorf("Gloo is told nothing in %q", env)
	}
	if i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "NCCL_SOCKET_IFNAME") }); i >= 0 {
		t.Errorf("NCCL is told %s", env[i])
	}
	f.order.Env = map[string]string{"GLOO_SOCKET_IFNAME": "eth9"}
	if env = run.Listed(f.order.Environment(f.dir, 0)); !slices.Contains(env, "GLOO_SOCKET_IFNAME=eth9") {
		t.Errorf("the job's own does not win in %q", env)
	}
}
