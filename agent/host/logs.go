package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/checkpoint/layout"
)

const (
	// logsEvery is how often old logs are looked for.
	logsEvery = 10 * time.Minute

	logsLane agent.Lane = "logs"
)

// KeepLogs bounds what the ranks' logs take up on a node. Logs of a generation
// that runs here are always kept; each is bounded by itself (Config.LogBytes).
type KeepLogs struct {
	Age   time.Duration // since anything was written last; 0 = DefaultKeepLogs.Age
	Bytes int64         // over all logs of the node, the oldest go first; 0 = DefaultKeepLogs.Bytes
}

// What is kept if nothing else is asked for.
const (
	DefaultLogBytes      = 64 << 20
	DefaultKeepLogsAge   = 14 * 24 * time.Hour
	DefaultKeepLogsBytes = 10 << 30
)

// logDir is the logs of one generation, as found.
type logDir struct {
	path  string // <job>/<generation>
	bytes int64
	last  time.Time // when anything was written
}

// deleteLogs deletes logs that are too old or too many, now and then.
func (up *upkeep) deleteLogs() {
	at := loop.Lane{What: logsLane}
	if up.Busy(at) || !up.records.known(selfPart) || time.Since(up.logsSwept) < logsEvery {
		return
	}
	up.logsSwept = time.Now()
	running := map[string]bool{}
	for _, jg := range up.runs.current() {
		running[filepath.Join(string(jg.Job), layout.Generation(jg.Generation, ""))] = true
	}
	root, keep, modules := up.cfg.logDir(), up.cfg.KeepLogs, filepath.Join(up.cfg.DataDir, learnedDir)
	up.Beside(at, func(context.Context) func() {
		found, err := findLogs(root)
		var deleted []string
		for _, d := range surplusLogs(found, running, keep, time.Now()) {
			if errRemove := removeLogs(root, d); errRemove != nil {
				err = errors.Join(err, errRemove)
				continue
			}
			deleted = append(deleted, d.path)
		}
		err = errors.Join(err, deleteOld(modules, keep.Age))
		if err != nil {
			up.Log.Error().Err(err).Msg("cannot delete old logs yet")
		}
		if len(deleted) > 0 {
			up.Log.Info().Strs("logs", deleted).Msg("deleted old logs")
		}
		return func() {}
	})
}

// deleteOld deletes the files of a folder that were not written for so long: of a job that runs, they
// are made again from what its workers import.
func deleteOld(dir string, age time.Duration) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		info, errInfo := e.Info()
		if errInfo == nil && time.Since(info.ModTime()) > age {
			errInfo = os.Remove(filepath.Join(dir, e.Name()))
		}
		if !errors.Is(errInfo, fs.ErrNotExist) {
			err = errors.Join(err, errInfo)
		}
	}
	return err
}

// surplusLogs are those that go: the too old ones, then the oldest until the rest fits.
func surplusLogs(found []logDir, running map[string]bool, keep KeepLogs, now time.Time) []logDir {
	total := int64(0)
	for _, d := range found {
		total += d.bytes
	}
	slices.SortFunc(found, func(a, b logDir) int {
		if c := a.last.Compare(b.last); c != 0 {
			return c
		}
		return strings.Compare(a.path, b.path)
	})
	var surplus []logDir
	for _, d := range found {
		if !running[d.path] && (now.Sub(d.last) > keep.Age || total > keep.Bytes) {
			surplus = append(surplus, d)
			total -= d.bytes
		}
	}
	return surplus
}

// findLogs lists the generations that have logs below root.
func findLogs(root string) ([]logDir, error) {
	jobs, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var found []logDir
	for _, job := range jobs {
		generations, errJob := os.ReadDir(filepath.Join(root, job.Name()))
		err = errors.Join(err, errJob)
		for _, g := range generations {
			d := logDir{path: filepath.Join(job.Name(), g.Name())}
			errWalk := filepath.WalkDir(filepath.Join(root, d.path), func(_ string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := e.Info()
				if err != nil {
					return err
				}
				if info.ModTime().After(d.last) {
					d.last = info.ModTime()
				}
				if info.Mode().IsRegular() {
					d.bytes += info.Size()
				}
				return nil
			})
			if err = errors.Join(err, errWalk); errWalk == nil {
				found = append(found, d)
			}
		}
	}
	return found, err
}

// removeLogs deletes a generation's logs, and the job's directory with the last of them.
func removeLogs(root string, d logDir) error {
	if err := os.RemoveAll(filepath.Join(root, d.path)); err != nil {
		return err
	}
	// It fails where other generations are, or one begins right now: which is as it should be.
	_ = os.Remove(filepath.Dir(filepath.Join(root, d.path)))
	return nil
}
