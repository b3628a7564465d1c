package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
)

func TestAlive(t *testing.T) {
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !Alive(self) {
		t.Error("this process is not alive")
	}
	for _, p := range []run.Process{
		{},
		{PID: self.PID, StartTime: self.StartTime + 1, BootID: self.BootID}, // reused
		{PID: self.PID, StartTime: self.StartTime, BootID: "another boot"},
		{PID: 1 << 30, StartTime: self.StartTime, BootID: self.BootID},
	} {
		if Alive(p) {
			t.Errorf("%+v is alive", p)
		}
	}
}

// A process may choose any name, and the kernel writes it as it is.
func TestStatIsParsed(t *testing.T) {
	const rest = " 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 3 0 77"
	for _, c := range []struct {
		text string
		want Stat // its zero value: an error
	}{
		{"5 (sh) S 1" + rest + "\n", Stat{PID: 5, comm: "sh", State: 'S', PPID: 1, threads: 3, Start: 77}},
		{"5 (sh) S 1" + rest + " 9 9 9\n", Stat{PID: 5, comm: "sh", State: 'S', PPID: 1, threads: 3, Start: 77}},
		{"5 (a) Z 9 (b c) R 2" + rest + " 9\n", Stat{PID: 5, comm: "a) Z 9 (b c", State: 'R', PPID: 2, threads: 3, Start: 77}},
		{"5 (sh) S" + rest + "\n", Stat{}},
		{"5 (sh) S x" + rest + "\n", Stat{}},
		{"5 (sh", Stat{}},
		{")5 (", Stat{}},
		{"", Stat{}},
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "5"), 0o755); err != nil {
			t.Fatal(err)
		}
		agenttest.Write(t, filepath.Join(dir, "5", "stat"), c.text, 0o644)
		got, err := FS(dir).Stat(5)
		if (err != nil) != (c.want == Stat{}) || err == nil && got != c.want {
			t.Errorf("%q: %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
}

func TestChildrenAreListed(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids, err := Children()
	if err != nil || !slices.Contains(pids, cmd.Process.Pid) {
		t.Errorf("children are %v, %v: want %d", pids, err, cmd.Process.Pid)
	}
	if err := errors.Join(cmd.Process.Kill(), cmd.Wait()); err == nil {
		t.Error("sleep was not killed")
	}
	if pids, _ = Children(); slices.Contains(pids, cmd.Process.Pid) {
		t.Errorf("children are %v after the end of %d", pids, cmd.Process.Pid)
	}
}

func Join(pids []int) string {
	s := " "
	for _, p := range pids {
		s += strconv.Itoa(p) + " "
	}
	return s
}

// The lineage of a process ends before init.
func TestLineage(t *testing.T) {
	own := Lineage(os.Getpid())
	if len(own) < 2 || own[0] != os.Getpid() || own[1] != os.Getppid() || slices.Contains(own, 1) {
		t.Errorf("%v of process %d, whose parent is %d", own, os.Getpid(), os.Getppid())
	}
	if gone := Lineage(1 << 30); len(gone) != 1 {
		t.Errorf("%v of a process that is gone", gone)
	}
}

// A process with SIGKILL pending runs nothing more, in any thread, and has forked nothing meanwhile.
func TestWhatHasSIGKILLPending(t *testing.T) {
	const pending, other = "State:\tD (disk sleep)\nSigQ:\t1/2\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n", "0000000000000200"
	for status, want := range map[string]bool{
		pending: true,
		strings.Replace(pending, "0000000000000100", other, 1):                           false,
		strings.Replace(pending, "0000000000000100", "0000000000000300", 1):              true,
		"State:\tD (disk sleep)\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n": false, // the kernel sends it to each thread
		"State:\tZ (zombie)\nSigPnd:\t0000000000000000\n":                                true,
		"State:\tR (running)\nSigPnd:\tnonsense\n":                                       false,
		"": false,
	} {
		if ends(status) != want {
			t.Errorf("%q: %t", status, !want)
		}
	}
	self, err := ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if OnlyKillPending([]Stat{self}, func() ([]Stat, error) { return []Stat{self}, nil }) {
		t.Error("this test has SIGKILL pending")
	}
	gone := Stat{PID: 1 << 30, Start: 1} // none has such a pid
	for name, c := range map[string]struct {
		again []Stat
		err   error
		want  bool
	}{
		"alone":        {[]Stat{gone}, nil, true},
		"with a child": {[]Stat{gone, self}, nil, false},
		"unknown":      {[]Stat{gone}, os.ErrPermission, false},
	} {
		if OnlyKillPending([]Stat{gone}, func() ([]Stat, error) { return c.again, c.err }) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}
