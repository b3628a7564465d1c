package watchdog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
)

// What is not due, and what is unknown, is left alone; what does not die is not
// killed without a pause.
func TestTheWatchdogKillsWhatIsOverdueOnly(t *testing.T) {
	t.Parallel()
	jg := record.JobGen{Job: "a", Generation: 1}
	tried := make(chan error, 10)
	w := New(agent.Times{Grace: fence.Grace, Patience: run.UnkillableAfter + fence.Grace}, func(_ record.JobGen, err error) { tried <- err })
	now := int64(time.Hour)
	watch := func(deadline int64) {
		dir := t.TempDir() // of a run whose record says nothing, so that each kill fails
		if err := os.WriteFile(filepath.Join(dir, "shim.json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.Watch(map[record.JobGen]Guarded{jg: {Deadline: deadline, Dir: dir}})
	}
	look := func(want int) {
		t.Helper()
		w.look(now)
		w.wg.Wait()
		if len(tried) != want {
			t.Fatalf("%d kills, want %d", len(tried), want)
		}
		for range want {
			if err := <-tried; err == nil || !strings.Contains(err.Error(), "shim.json") {
				t.Error(err)
			}
		}
	}
	w.look(now)
	watch(now)
	look(0)
	now += int64(time.Second)
	look(0) // it counts as gone: no shim was ever started
	w.runs[jg] = Guarded{Run: live(), Deadline: now, Dir: w.runs[jg].Dir}
	look(0)
	now += int64(time.Second)
	look(1)
	look(0)
	now += int64(every)
	look(1)
	now += int64(every)
	look(0)
	now += int64(longestPause)
	look(1)
	w.runs[jg] = Guarded{Run: live(), Deadline: w.runs[jg].Deadline, Dir: filepath.Join(t.TempDir(), "none")}
	now += int64(longestPause)
	look(0) // its shim has claimed nothing yet
	w.Watch(nil)
	now += int64(longestPause)
	look(0)
}

func live() agent.Run { return agent.Run{Job: "a", Generation: 1, Shim: agent.Live} }
