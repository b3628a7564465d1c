package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
)

func TestWhichLogsGo(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	found := []logDir{
		{"a/g00000001", 10, now.Add(-5 * time.Hour)},
		{"a/g00000002", 20, now.Add(-3 * time.Hour)},
		{"b/g00000001", 30, now.Add(-4 * time.Hour)},
		{"c/g00000001", 40, now.Add(-time.Minute)},
	}
	for _, c := range []struct {
		name    string
		keep    KeepLogs
		running []string
		want    []string
	}{
		{"all may stay", KeepLogs{6 * time.Hour, 100}, nil, nil},
		{"too old", KeepLogs{210 * time.Minute, 100}, nil, []string{"a/g00000001", "b/g00000001"}},
		{"too many", KeepLogs{6 * time.Hour, 65}, nil, []string{"a/g00000001", "b/g00000001"}},
		{"what runs is kept, and counts", KeepLogs{6 * time.Hour, 65}, []string{"b/g00000001"}, []string{"a/g00000001", "a/g00000002", "c/g00000001"}},
		{"both", KeepLogs{270 * time.Minute, 40}, nil, []string{"a/g00000001", "b/g00000001", "a/g00000002"}},
	} {
		running := map[string]bool{}
		for _, path := range c.running {
			running[path] = true
		}
		var got []string
		for _, d := range surplusLogs(slices.Clone(found), running, c.keep, now) {
			got = append(got, d.path)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v go, want %v", c.name, got, c.want)
		}
	}
}

func TestOldLogsGoAndThoseOfRunningJobsStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	logs := filepath.Join(s.Dir, "data", "logs")
	long := time.Now().Add(-DefaultKeepLogsAge - time.Hour)
	for path, at := range map[string]time.Time{"old/g00000001": long, "old/g00000002": time.Now(), "gone/g00000001": long} {
		file := filepath.Join(logs, path, "rank-0.log")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("words"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{file, filepath.Dir(file)} {
			if err := os.Chtimes(p, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	modules := filepath.Join(s.Dir, "data", learnedDir)
	if err := os.MkdirAll(modules, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]time.Time{"old": long, "young": time.Now()} {
		if err := os.WriteFile(filepath.Join(modules, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(modules, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	f.agent(s)
	f.until("the old logs and what was learned to be gone", func() bool {
		_, one := os.Stat(filepath.Join(logs, "old", "g00000001"))
		_, two := os.Stat(filepath.Join(logs, "gone"))
		_, names := os.Stat(filepath.Join(modules, "old"))
		return os.IsNotExist(one) && os.IsNotExist(two) && os.IsNotExist(names)
	})
	if _, err := os.Stat(filepath.Join(modules, "young")); err != nil {
		t.Errorf("the names that were written lately: %v", err)
	}
	if _, err := os.Stat(filepath.Join(logs, "old", "g00000002", "rank-0.log")); err != nil {
		t.Errorf("the younger generation's: %v", err)
	}
	j := f.job("talks", []string{"/bin/sh", "-c", "echo on"}, map[string]int{"n1": 1}, "n1")
	f.start(j)
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	if _, err := os.Stat(filepath.Join(logs, "talks", "g00000001", "rank-0.log")); err != nil {
		t.Errorf("a new job's: %v", err)
	}
}
