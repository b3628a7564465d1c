package verify

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestModulesOfTheFirstWorld: all of them are there when the workers of the others begin.
func TestModulesOfTheFirstWorld(t *testing.T) {
	const notes = "import os, sys\nwith open(__file__ + '.had', 'a') as f: f.write('%s%d' % (os.environ['RANK'], len({'colorsys', 'fractions', 'graphlib'} & set(sys.modules))) + ' ')\n" +
		"import colorsys, fractions, graphlib\n" + withoutTorch
	script := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(script, []byte(notes+loop), 0o644); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Command: []string{interpreter, "-B", script}, Sizes: []int{1, 2}, Nodes: 1, StepsEach: 1, BatchSize: 2,
		Tolerance: Bitwise, Limit: time.Minute, Told: t.Output(),
	}
	if r, err := Run(t.Context(), o); err != nil || !r.Good() {
		t.Errorf("%v %+v", err, r)
	}
	had, err := os.ReadFile(script + ".had")
	if got := strings.Fields(string(had)); err != nil || len(got) != 4 || got[0] != "00" || got[1] != "03" || !slices.Contains(got[2:], "03") || !slices.Contains(got[2:], "13") {
		t.Errorf("each worker's rank, and how many of three modules it had: %q, %v", had, err)
	}
}

// TestForkedWorkers: they are observed as others are, and end in every way that processes do.
func TestForkedWorkers(t *testing.T) {
	light.begin(t)
	last := "if bellows.world_size() == 1: "
	for _, tt := range []struct{ name, first, fault string }{
		{"they are forked", "assert os.getppid() == " + strconv.Itoa(light.launcher.cmd.Process.Pid) + " and os.getsid(0) == os.getpid() and not sys.stdin.read()", ""},
		{"leave", last + "sys.exit(3)", "train with rescales: 1 worker from step 3: rank 0: exit status 3"},
		{"fail, and what they say is shown", last + "raise ValueError('out of luck')", "ValueError: out of luck"},
		{"end of the signal that asks them to save", last + "os.kill(os.getpid(), 15)", "signal: terminated: it ended of the SIGTERM that asks it to save"},
		{"are killed", "if bellows.rank() == 1: os.kill(os.getpid(), 9)", "train without a rescale: 2 workers from step 0: rank 1: signal: killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := light.tried(t, "import os, sys, bellows\n"+tt.first+"\n"+loop, Bitwise)
			if tt.fault == "" && (err != nil || !r.Good() || len(r.Losses) != 6) {
				t.Errorf("%v %+v", err, r)
			}
			if tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
				t.Errorf("%v, not %s", err, tt.fault)
			}
			if !light.launcher.alive() {
				t.Error("the launcher is gone")
			}
		})
	}
}

// TestAForkedWorldIsKilled: with what its workers have started, when its time is over.
func TestAForkedWorldIsKilled(t *testing.T) {
	light.begin(t)
	dir := t.TempDir()
	hangs := "import os, subprocess, time\nchild = subprocess.Popen(['sleep', '1000'])\n" +
		"name = os.environ['TRAIN_ARGUMENTS'] + '/' + os.environ['RANK']\nopen(name + '.new', 'w').write('%d %d' % (os.getpid(), child.pid))\nos.rename(name + '.new', name)\ntime.sleep(1000)\n"
	o := light.options(t, hangs, Bitwise, dir)
	o.Sizes, o.Limit = []int{1, 2}, 2*time.Second
	var pids []byte
	for ; len(pids) == 0; o.Limit *= 2 { // a busy machine may need longer to begin
		if o.Limit > time.Minute {
			t.Fatalf("it had not begun within %s", o.Limit/2)
		}
		if _, err := light.run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "allow it more with --limit") {
			t.Fatal(err)
		}
		pids, _ = os.ReadFile(filepath.Join(dir, "0")) // absent: not begun
	}
	for text := range strings.FieldsSeq(string(pids)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		stat, _ := os.ReadFile(filepath.Join("/proc", text, "stat")) // absent: it is gone
		if _, _, lives := parseStat(stat); lives {                   // a zombie is another's to wait for
			t.Errorf("process %d lives: %s", pid, stat)
		}
	}
}

func TestBorn(t *testing.T) {
	for _, tt := range []struct {
		pids []int
		good bool
	}{{[]int{7, 8}, true}, {[]int{7}, false}, {[]int{7, 8, 9}, false}, {[]int{7, 0}, false}, {[]int{1, 7}, false}, {[]int{-7, 8}, false}} {
		if err := checkBorn(tt.pids, 2); (err == nil) != tt.good {
			t.Errorf("%v: %v", tt.pids, err)
		}
	}
}

// TestALauncherThatTellsOfOthers: it tells of the end of a rank that there is not, or that has ended before. The ranks that have not ended by then are killed.
func TestALauncherThatTellsOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		failed     []int
	}{
		{"a rank that there is not", `{"rank": 2}`, []int{0, 1}},
		{"a rank below the first", `{"rank": -1}`, []int{0, 1}},
		{"one that has ended before", `{"rank": 0}` + "\n" + `{"rank": 0}`, []int{1}},
		{"one that has ended", `{"rank": 0}` + "\n" + `{"rank": 1}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var pids []int
			for range 2 {
				worker := exec.Command("sleep", "1000")
				worker.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				if err := worker.Start(); err != nil {
					t.Fatal(err)
				}
				killed := make(chan struct{})
				go func() { defer close(killed); _ = worker.Wait() }() // by that signal
				t.Cleanup(func() {
					select {
					case <-killed:
					case <-time.After(killedWithin):
						t.Errorf("process %d was not killed", worker.Process.Pid)
						_ = worker.Process.Kill()
					}
				})
				pids = append(pids, worker.Process.Pid)
			}
			pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			mine, theirs := os.NewFile(uintptr(pair[0]), "launcher"), os.NewFile(uintptr(pair[1]), "launcher's end")
			defer theirs.Close()
			defer mine.Close()
			if _, err := fmt.Fprintf(theirs, "{\"born\": [%d, %d]}\n%s\n", pids[0], pids[1], tt.says); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Shutdown(pair[1], syscall.SHUT_WR); err != nil { // it says nothing more
				t.Fatal(err)
			}
			ended := make(chan outcome, 2)
			l := &launcher{conn: mine, lines: bufio.NewReader(mine), cmd: &exec.Cmd{}}
			if err := l.fork(t.Context(), &world{dir: t.TempDir()}, make([]workerOrder, 2), ended); err != nil {
				t.Fatal(err)
			}
			var failed []int
			for range 2 {
				end := <-ended
				if end.err == nil {
					continue
				}
				failed = append(failed, end.rank)
				if !strings.Contains(end.err.Error(), ", which has not begun or has ended before: --cold-start does without it") {
					t.Error(end.err)
				}
			}
			slices.Sort(failed)
			if !slices.Equal(failed, tt.failed) {
				t.Errorf("ranks %v have failed, want %v", failed, tt.failed)
			}
		})
	}
}

// TestALauncherThatEnds: its workers end with it, and the failure says what does without it.
func TestALauncherThatEnds(t *testing.T) {
	_, err := light.tried(t, "import os, time, bellows\nif bellows.world_size() == 1:\n    os.kill(os.getppid(), 9)\n    time.sleep(1000)\n"+loop, Bitwise)
	if err == nil || !strings.Contains(err.Error(), "has ended: --cold-start does without it") {
		t.Error(err)
	}
	// What follows is started without it, and makes another.
	if r, err := light.run(t.Context(), light.options(t, loop, Bitwise)); err != nil || !r.Good() || !light.launcher.alive() {
		t.Errorf("%v %+v", err, r)
	}
}

// TestCommandsThatAreNotForked: why is said, and all worlds are started as the first.
func TestCommandsThatAreNotForked(t *testing.T) {
	w := world{size: 1, dir: t.TempDir()}
	if err := os.WriteFile(w.modules(), []byte("json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		command, want string
		limit         time.Duration
	}{
		{"sh train.sh", "the command is no Python script", time.Minute},
		{"python3.99 train.py", "executable file not found", time.Minute},
		{interpreter + " train.py", "importing what the script imports has taken longer than 20ms (--limit)", 20 * time.Millisecond},
		{interpreter + " train.py", "No module named 'bellows_verify_launch'", time.Minute}, // it says why it has ended
	} {
		dir := t.TempDir()
		if tt.limit < time.Minute {
			if err := os.WriteFile(filepath.Join(dir, "bellows_verify_launch.py"), []byte("import time\ntime.sleep(1000)\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		l, err := prepare(t.Context(), &Options{Command: strings.Fields(tt.command), Nodes: 1, Limit: tt.limit}, &w, dir)
		if l != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, not %s", tt.command, err, tt.want)
		}
	}
	var told strings.Builder
	if _, err := triedTold(t, loop, &told); err != nil || !strings.Contains(told.String(), "all worlds are started as the first was: with the option -S Python does not see") {
		t.Errorf("%v: %s", err, told.String())
	}
}

func TestHowForkedWorkersEnd(t *testing.T) {
	for end, want := range map[exited]string{{}: "", {status: 3}: "exit status 3", {signal: syscall.SIGKILL}: "signal: killed"} {
		err := end.err()
		if got := errorText(err); got != want || signalOf(errors.Join(err)) != end.signal {
			t.Errorf("%+v: %q, %v", end, got, signalOf(err))
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
