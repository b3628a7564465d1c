package shim

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// program writes an executable file, by another process: a descriptor of ours open
// for writing could be in a child that another test is just about to execute, and
// then the system takes the file for busy.
func program(t *testing.T, path, text string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `cat > "$0" && chmod 755 "$0"`, path)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("write %s: %s, %v", path, out, err)
	}
}

func TestNodesRefuse(t *testing.T) {
	t.Parallel()
	testRefusals(t, map[string]refused{
		"no workdir": {
			func(f *fixture) { f.order.Workdir = "/nowhere/at/all" }, record.NodeRefused,
			[]string{"workdir /nowhere/at/all", "no such file", "same path on every node"},
		},
		"workdir is a file": {
			func(f *fixture) { f.order.Workdir = "/etc/passwd" }, record.NodeRefused,
			[]string{"workdir /etc/passwd", "not a directory"},
		},
		"a master address that is not here any more": {
			func(f *fixture) { f.order.World.Master.Host = "192.0.2.77" }, record.PortTaken,
			[]string{"master address 192.0.2.77", "present one"},
		},
		"no interpreter in PATH": {
			func(f *fixture) { f.order.Command = []string{"no-such-python"} }, record.NodeRefused,
			[]string{"command no-such-python", "of the submitted PATH", "install"},
		},
		"no interpreter at its path": {
			func(f *fixture) { f.order.Command = []string{"/opt/none/python"} }, record.NodeRefused,
			[]string{"command /opt/none/python", "no such file", "install"},
		},
		"not executable": {
			func(f *fixture) {
				agenttest.Write(f.t, filepath.Join(f.order.Workdir, "train.py"), "print()", 0o644)
				f.order.Command = []string{"./train.py"}
			}, record.NodeRefused,
			[]string{"train.py", "permission denied"},
		},
		"a directory for a program": {
			func(f *fixture) { f.order.Command = []string{"/etc"} }, record.NodeRefused,
			[]string{"command /etc", "not a file"},
		},
		"no shebang": {
			func(f *fixture) {
				program(f.t, filepath.Join(f.order.Workdir, "train.py"), "print()")
				f.order.Command = []string{"./train.py"}
			}, record.NodeRefused,
			[]string{"train.py", "exec format error", "#!/usr/bin/env python3"},
		},
		"shebang of nowhere": {
			func(f *fixture) {
				program(f.t, filepath.Join(f.order.Workdir, "train.py"), "#!/opt/none/python\n")
				f.order.Command = []string{"./train.py"}
			}, record.NodeRefused,
			[]string{"train.py", "interpreter named in its first line"},
		},
		"owner unknown here": {
			func(f *fixture) {
				agenttest.NeedsRoot(f.t)
				f.order.Owner = cluster.Owner{UID: 54321, GID: 54321, User: "no-such-user"}
			}, record.NodeRefused,
			[]string{"owner no-such-user (uid 54321)", "not known on this node", "create the user"},
		},
		"owner with another uid here": {
			func(f *fixture) {
				agenttest.NeedsRoot(f.t)
				f.order.Owner = cluster.Owner{UID: 54321, GID: 54321, User: "daemon"}
			}, record.NodeRefused,
			[]string{"owner daemon has uid 54321", "uid 1 on this node", "one uid on every node"},
		},
	})
}

// A checkpoint directory in which nothing can be saved is met before anything starts.
func TestNodesRefuseCheckpointDirectories(t *testing.T) {
	t.Parallel()
	testRefusals(t, map[string]refused{
		"a stranger was first with the job's directory": {
			func(f *fixture) { f.premade(0o777, f.order.Checkpoint, filepath.Dir(f.order.Checkpoint)) }, record.NodeRefused,
			[]string{"checkpoint_dir", "/train-abcdef belongs to", "uid 65534", "have it removed"},
		},
		"a stranger was first with the generation's directory": {
			func(f *fixture) { f.premade(0o777, f.order.Checkpoint) }, record.NodeRefused,
			[]string{"checkpoint_dir", "/g00000003 belongs to", "uid 65534", "have it removed"},
		},
		"all may write to the base": {
			func(f *fixture) { f.premade(0o777); f.chmod(0o777, filepath.Join(f.root, "ckpt")) }, record.NodeRefused,
			[]string{"checkpoint_dir", "/ckpt: its mode 0777", "chmod +t", "a folder of your own"},
		},
		"all may write to the job's directory": {
			func(f *fixture) { f.premade(0o755); f.chmod(0o777, filepath.Dir(f.order.Checkpoint)) }, record.NodeRefused,
			[]string{"checkpoint_dir", "/train-abcdef has mode 0777", "chmod -R go-w"},
		},
		"the kernel's file system for a base": {
			func(f *fixture) { f.order.Checkpoint = "/proc/sys/train-abcdef/g00000003" }, record.NodeRefused,
			[]string{"checkpoint_dir", "/proc/sys: it lies in a file system of the kernel's"},
		},
		"checkpoint base is a file": {
			func(f *fixture) { agenttest.Write(f.t, filepath.Join(f.root, "ckpt"), "", 0o644) }, record.NodeRefused,
			[]string{"checkpoint_dir", "not a directory", "base directory"},
		},
		"checkpoint leads out of its base": {
			func(f *fixture) {
				elsewhere := filepath.Join(f.root, "elsewhere")
				if err := os.MkdirAll(elsewhere, 0o755); err != nil {
					f.t.Fatal(err)
				}
				base := filepath.Dir(filepath.Dir(f.order.Checkpoint))
				if err := os.MkdirAll(base, 0o755); err != nil {
					f.t.Fatal(err)
				}
				if err := os.Symlink(elsewhere, filepath.Dir(f.order.Checkpoint)); err != nil {
					f.t.Fatal(err)
				}
			}, record.NodeRefused,
			[]string{"checkpoint_dir", "symbolic link", "elsewhere", "remove the link"},
		},
		"checkpoint base cannot be written to": {
			func(f *fixture) {
				f.giveTo(1, 1)
				f.order.Owner = cluster.Owner{UID: 1, GID: 1, User: "daemon"}
				if err := os.Chmod(filepath.Join(f.root, "ckpt"), 0o555); err != nil {
					f.t.Fatal(err)
				}
			}, record.NodeRefused,
			[]string{"checkpoint_dir", "permission denied", "the owner can write to"},
		},
		"checkpoint base is read-only": {
			func(f *fixture) {
				base := filepath.Join(f.root, "ckpt")
				f.smallDisk(base, 64)
				if err := unix.Mount("", base, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
					f.t.Fatal(err)
				}
			}, record.Transient,
			[]string{"checkpoint_dir", "read-only file system", "the owner can write to"},
		},
		"checkpoint base is a link to nowhere": {
			func(f *fixture) {
				if err := os.Symlink("/no/where", filepath.Join(f.root, "ckpt")); err != nil {
					f.t.Fatal(err)
				}
			}, record.NodeRefused,
			[]string{"checkpoint_dir", "base directory"},
		},
		"a generation's directory leads out": {
			func(f *fixture) {
				elsewhere := filepath.Join(f.root, "elsewhere")
				for _, dir := range []string{elsewhere, filepath.Dir(f.order.Checkpoint)} {
					if err := os.MkdirAll(dir, 0o755); err != nil {
						f.t.Fatal(err)
					}
				}
				if err := os.Symlink(elsewhere, f.order.Checkpoint); err != nil {
					f.t.Fatal(err)
				}
			}, record.NodeRefused,
			[]string{"checkpoint_dir", "symbolic link", "elsewhere", "remove the link"},
		},
	})
}

// premade makes the generation's directory beforehand, and those of the given ones
// a stranger's, in a base that is shared as /tmp is.
func (f *fixture) premade(mode os.FileMode, strangers ...string) {
	f.t.Helper()
	if err := os.MkdirAll(f.order.Checkpoint, 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.chmod(0o777|os.ModeSticky, filepath.Join(f.root, "ckpt"))
	if len(strangers) > 0 {
		agenttest.NeedsRoot(f.t)
	}
	for _, dir := range strangers {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			f.t.Fatal(err)
		}
		f.chmod(mode, dir)
	}
}

func (f *fixture) chmod(mode os.FileMode, path string) {
	f.t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		f.t.Fatal(err)
	}
}

// refused is what is wrong with a node, and how it says so.
type refused struct {
	spoil func(f *fixture)
	kind  record.FailureKind
	words []string // field, value, remedy
}

func testRefusals(t *testing.T, cases map[string]refused) {
	first := slices.Min(slices.Collect(maps.Keys(cases)))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 2, "echo ran > ran")
			if name != first {
				f.repeats()
			}
			c.spoil(f)
			r := f.start().stopped()
			if r.Failed == nil || r.Failed.Kind != c.kind || r.Failed.Rank != -1 {
				t.Fatalf("failed %+v", r.Failed)
			}
			for _, w := range c.words {
				if !strings.Contains(r.Failed.Reason, w) {
					t.Errorf("reason %q does not say %q", r.Failed.Reason, w)
				}
			}
			if strings.HasPrefix(name, "owner") { // nothing was made in the name of another user
				if _, err := os.Stat(filepath.Join(f.root, "ckpt")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the checkpoint directory was made: %v", err)
				}
			}
			if r.Workers != nil || len(r.Stopped.Exits) > 0 || r.Stopped.Finished {
				t.Errorf("workers %v, stopped %+v", r.Workers, r.Stopped)
			}
			f.retire()
		})
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo ran > ran")
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", f.order.World.Master.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := f.start().stopped()
	if r.Failed == nil || r.Failed.Kind != record.PortTaken || !strings.Contains(r.Failed.Reason, fmt.Sprint(f.order.World.Master.Port)) {
		t.Errorf("failed %+v", r.Failed)
	}
	f.retire()
}

// pair makes two nodes' orders of one generation.
func pair(t *testing.T, script string) (first, second *fixture) {
	first, second = newFixture(t, 1, script), newFixture(t, 1, script)
	members := []cluster.Member{
		{Node: "n1", Devices: []cluster.DeviceID{"SIM-0"}},
		{Node: "n2", Devices: []cluster.DeviceID{"SIM-1"}, FirstRank: 1},
	}
	first.order.World.Members, second.order.World.Members = members, members
	second.order.World.Master = first.order.World.Master
	second.order.Node = "n2"
	return first, second
}

func TestTwoNodesMeetAtTheCheckpoint(t *testing.T) {
	t.Parallel()
	first, second := pair(t, "exit 0")
	second.order.Checkpoint = first.order.Checkpoint
	second.start() // comes first, and has to wait
	second.await("waiting", func(r run.Report) bool { return strings.Contains(r.Waiting, "checkpoint_dir") })
	first.start()
	for _, f := range []*fixture{first, second} {
		if r := f.stopped(); !r.Stopped.Finished {
			t.Errorf("node %s: failed %+v, stopped %+v", f.order.Node, r.Failed, r.Stopped)
		}
		f.retire()
	}
	entries, err := os.ReadDir(first.order.Checkpoint)
	if err != nil || len(entries) != 1 || entries[0].Name() != precheck.MeetingFile {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

func TestOrdersThatMakeNoSense(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	for name, c := range map[string]struct {
		spoil func(o *run.Order)
		word  string
	}{
		"version":  {func(o *run.Order) { o.Version = 99 }, "version is 99"},
		"node":     {func(o *run.Order) { o.Node = "n9" }, `node "n9" has no devices`},
		"command":  {func(o *run.Order) { o.Command = nil }, "command is empty"},
		"workdir":  {func(o *run.Order) { o.Workdir = "here" }, `workdir "here" is not an absolute path`},
		"env":      {func(o *run.Order) { o.Env = map[string]string{"A=B": "1"} }, `env "A=B"`},
		"zero":     {func(o *run.Order) { o.Command = []string{"a\x00b"} }, "zero byte"},
		"lock_dir": {func(o *run.Order) { o.LockDir = "" }, `lock_dir ""`},
	} {
		o := f.order
		c.spoil(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Start(t.Context(), "/proc/self/exe", f.dir, o); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("Start with a bad %s: %v", name, err)
		}
	}
}

func TestDirectoriesTooLongForASocket(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	dir := filepath.Join(f.root, strings.Repeat("d", 100))
	if _, err := Start(t.Context(), "/proc/self/exe", dir, f.order); err == nil || !strings.Contains(err.Error(), "shorter state directory") {
		t.Errorf("Start: %v", err)
	}
	if _, err := Dial(dir); err == nil || !strings.Contains(err.Error(), "shorter state directory") {
		t.Errorf("Dial: %v", err)
	}
}

func TestTwoNodesThatDoNotMeet(t *testing.T) {
	t.Parallel()
	first, second := pair(t, "sleep 100")
	// An earlier generation's note is not the right one.
	agenttest.Write(t, filepath.Join(second.order.Checkpoint, precheck.MeetingFile), "job=train-abcdef generation=2\n", 0o644)
	first.start()
	begun := time.Now()
	r := second.start().stopped()
	if r.Failed == nil || r.Failed.Kind != record.NodeRefused ||
		!strings.Contains(r.Failed.Reason, "is not the same directory on node n2 and node n1") ||
		!strings.Contains(r.Failed.Reason, "generation=2") {
		t.Errorf("failed %+v", r.Failed)
	}
	const meetWait = 10 * time.Second // of precheck
	if took := time.Since(begun); took < meetWait || took > meetWait+agenttest.Patience/4 {
		t.Errorf("took %v", took)
	}
	first.push(run.Wish{Kill: "test"})
	first.stopped()
}
