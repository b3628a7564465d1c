package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/record"
)

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	} else if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestLogsAreCapped(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "seq 1 50000; printf 'no end'")
	f.order.LogMaxBytes = 20_000
	r := f.start().stopped()
	if !r.Stopped.Finished {
		t.Fatalf("failed %+v", r.Failed)
	}
	path := filepath.Join(f.order.LogDir, "rank-0.log")
	rotated, err := filepath.Glob(path + ".*")
	if err != nil || len(rotated) != 1 {
		t.Fatalf("rotated away: %q, %v", rotated, err)
	}
	written, kept := 0, f.read("logs", filepath.Base(rotated[0]))
	now, before := size(t, path), int64(len(kept))
	if now+before > 20_000 || now+before < 9_000 {
		t.Errorf("%d + %d bytes, want at most 20000 and not much less than half of it", now, before)
	}
	all := strings.Split(kept+f.read("logs", "rank-0.log"), "\n")
	if all[len(all)-1] != "no end" || all[len(all)-2] != "50000" {
		t.Errorf("ends with %q", all[len(all)-2:])
	}
	for i, line := range all[:len(all)-1] { // whole lines, none lost between the files
		if want := fmt.Sprint(50000 - (len(all) - 2) + i); line != want {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
	}
	// Its number is that of the files before and itself: each holds almost half of what is kept.
	for i := 1; i <= 50000; i++ {
		written += len(fmt.Sprintln(i))
	}
	if want := fmt.Sprintf("%s.%d", path, (written-1)/9_990); rotated[0] > want || rotated[0] < fmt.Sprintf("%s.%d", path, (written-1)/10_000) {
		t.Errorf("the file before is %s, want %s or a little less", rotated[0], want)
	}
}

func TestLinesLongerThanALogAreCut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "head -c 100000 /dev/zero | tr '\\0' x; echo")
	f.order.LogMaxBytes = 1000
	f.start().stopped()
	path := filepath.Join(f.order.LogDir, "rank-0.log")
	rotated, err := filepath.Glob(path + ".*")
	if err != nil || len(rotated) != 1 {
		t.Fatalf("rotated away: %q, %v", rotated, err)
	}
	if now, before := size(t, path), size(t, rotated[0]); now > 500 || before > 500 || before == 0 {
		t.Errorf("%d and %d bytes", now, before)
	}
}

func TestAGenerationAppendsToTheLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo second")
	agenttest.Write(t, filepath.Join(f.order.LogDir, "rank-0.log"), "first\n", 0o644)
	f.start().stopped()
	if got := f.read("logs", "rank-0.log"); got != "first\nsecond\n" {
		t.Errorf("log %q", got)
	}
}

// A log is no reason for a training to stop; but what is missing is said.
func TestAFullDiskDropsLinesAndSaysSo(t *testing.T) {
	f := newFixture(t, 1, `
seq 1 20000; echo wrote > wrote; while ! [ -e go ]; do sleep 0.02; done; echo afterwards; exit 3`)
	f.smallDisk(f.order.LogDir, 256)
	filler := filepath.Join(f.order.LogDir, "filler")
	agenttest.Write(t, filler, strings.Repeat("x", 62*4096), 0o644)
	f.start()
	f.awaitFile("wrote") // more than fits into the pipe and onto the disk
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	agenttest.Write(t, filepath.Join(f.order.Workdir, "go"), "", 0o644)
	r := f.stopped()
	log := f.read("logs", "rank-0.log")
	if !strings.Contains(log, "lines are missing here") || !strings.Contains(log, "afterwards\n") {
		t.Errorf("log of %d bytes ends with %q", len(log), log[max(0, len(log)-200):])
	}
	if r.Failed == nil || r.Failed.Kind != record.WorkerFailed || r.Failed.LogTail[len(r.Failed.LogTail)-1] != "afterwards" {
		t.Errorf("failed %+v", r.Failed)
	}
}

func TestWorkersRunThoughTheirLogsCannotBeOpened(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "seq 1 100000; exit 4")
	agenttest.Write(t, f.order.LogDir, "a file where the directory should be", 0o644)
	r := f.start().stopped()
	if r.Failed == nil || r.Failed.Reason != "exit status 4" || r.Failed.LogTail[logTailLines-1] != "100000" {
		t.Errorf("failed %+v", r.Failed)
	}
}

func TestTheTailIsWhatATerminalWouldShow(t *testing.T) {
	for _, c := range []struct {
		chunks []string
		want   []string
	}{
		{[]string{"a\nb\n"}, []string{"a", "b"}},
		{[]string{"windows\r\nlines\r\n"}, []string{"windows", "lines"}},
		{[]string{"windows\r", "\nlines"}, []string{"windows", "lines"}},
		{[]string{"0%\r50%\r100%\ndone"}, []string{"100%", "done"}},
		{[]string{"0%", "\r50%", "\r", "100%\r", "\n"}, []string{"100%"}},
		{[]string{"10%\r", "", "20%\rerror: x\n"}, []string{"error: x"}},
		{[]string{"\x1b[31mred\x07\x00\n\n"}, []string{"[31mred", ""}},
		{[]string{"bad \xff utf-8\ttab\n"}, []string{"bad  utf-8 tab"}},
	} {
		l := &workerLog{}
		for _, chunk := range c.chunks {
			l.remember([]byte(chunk))
		}
		if got := l.lastLines(); !slices.Equal(got, c.want) {
			t.Errorf("%q shows %q, want %q", c.chunks, got, c.want)
		}
	}
}

func TestAHeldPipeDelaysTheEndButBriefly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "exit 0")
	l, out, err := openLog(f.order, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(out) //nolint:errcheck // a pipe's
	l.stop()
	select {
	case <-l.done:
	case <-time.After(agenttest.Patience):
		t.Error("the log goes on although it was stopped")
	}
}

// Logs are for their owner, through the agent, and for root: no other user of the
// machine reads them, and the job itself cannot change what it has written.
func TestLogsAreClosedToOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "seq 1 5000")
	f.order.LogMaxBytes = 20_000
	f.start().stopped()
	files, err := filepath.Glob(filepath.Join(f.order.LogDir, "rank-0.log*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("logs: %q, %v", files, err)
	}
	for path, want := range map[string]os.FileMode{f.order.LogDir: os.ModeDir | 0o700, files[0]: 0o600, files[1]: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, want mode %v", path, err, want)
		}
	}
}
