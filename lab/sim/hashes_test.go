package sim

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/policy"
)

var update = flag.Bool("update", false, "rewrite testdata/log_sha256.txt: decisions have changed, and the commit says why")

// The decisions of a run with each policy are those that are recorded: a change
// that only rewords or reorganises keeps every hash. See ADR 43.
func TestDecisionsAreAsRecorded(t *testing.T) {
	const path = "testdata/log_sha256.txt"
	f := Synthetic(1)
	f.Arrivals = f.Arrivals[:160]
	jobs, err := Model{MaxWorkers: 16, ETANoise: 0.1, Buggy: 0.1, Impatient: 0.1, Seed: 1}.Jobs(f)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, name := range policy.Names() {
		r, runErr := Run(Config{
			Jobs: jobs, Nodes: 4, DevicesPerNode: 4, Policy: byName(t, name), Interval: 5 * time.Minute,
			RescaleCost: 30 * s, StartDelay: 2 * s, CheckpointEvery: 10 * time.Minute,
			Failures: []Failure{{Node: 1, At: time.Hour, For: time.Minute}, {Node: 2, At: 3 * time.Hour, For: 2 * time.Hour}},
		})
		if runErr != nil {
			t.Fatal(runErr)
		}
		fmt.Fprintf(&got, "%s %s\n", name, r.LogSHA256)
	}
	if *update {
		if err = os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("decisions have changed: got\n%swant\n%s", got.String(), want)
	}
}

// Only codes and numbers are hashed: the same run with other texts has the same hash.
func TestTextsAreNotHashed(t *testing.T) {
	hash := func(text string) string {
		l := newJournal(nil)
		l.explain(s, text, codePhase, "a", 1, "running")
		l.explain(s, text, codeNote, text)
		return l.sha256()
	}
	if hash("all ranks have started") != hash("every rank runs") {
		t.Error("a text is part of the hash")
	}
	l := newJournal(nil)
	l.add(s, codePhase, "a", 2, "running")
	if l.sha256() == hash("") {
		t.Error("a number is not part of the hash")
	}
}
