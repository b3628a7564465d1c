package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
)

const (
	// logsEvery is how often old logs are looked for.
	logsEvery = 10 * time.Minute

	logsLane agent.Lane = "logs"
)

// logDir is the logs of one generation, as found.
type logDir struct {
	path  string // <job>/<generation>
	bytes int64
	last  time.Time // when anything was written
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
