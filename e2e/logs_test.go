package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

// counting writes numbered lines: many at once, so that a small log is rotated
// over and over, and then slowly until it is told to stop.
const counting = `trap 'exit 0' TERM
i=0
while [ $i -lt 3000 ]; do i=$((i+1)); echo "rank $RANK line $i"; done
while :; do i=$((i+1)); echo "rank $RANK line $i"; sleep 0.05; done
`

// A run that is followed goes on where it was when agents restart: the one that
// answers and the one of another node, also when logs were rotated since.
func TestFollowingAcrossAgentsThatRestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 1})
	small := []string{"--log-size", "20K"}
	for i := 1; i <= 2; i++ {
		f.kill(fmt.Sprintf("agent-n%d", i))
		f.startAgent(i, small...)
	}
	f.awaitReady(1)
	f.awaitReady(2)
	s := startSession(t, f.command(1, "run", "--name", "counts", "--min", "2", "--max", "2", "--checkpoint-dir", filepath.Join(f.dir, "ckpt"),
		"--", f.script("counts.sh", counting)))
	seen := map[string]int{}
	// further waits until each rank's lines have come so much further.
	further := func(lines int) {
		t.Helper()
		f.eventually("both ranks' lines", func() bool {
			now := lastLines(s.said())
			for _, rank := range []string{"0", "1"} {
				if now[rank] < max(3000, seen[rank])+lines {
					return false
				}
			}
			seen = now
			return true
		})
	}
	further(10)
	for _, agent := range []int{2, 1, 2} {
		f.kill(fmt.Sprintf("agent-n%d", agent))
		f.startAgent(agent, small...)
		further(20)
	}
	f.stop("counts")
	if code := s.wait(); code == 0 { // 1, or its signal's where a busy machine had to kill it
		t.Errorf("exit %d of a job that was stopped", code)
	}
	if out, errs, code := f.bellows("logs", "counts", "--rank", "1", "--since", "1h"); code != 0 || !strings.Contains(out, fmt.Sprintf("rank 1 line %d\n", lastLines(s.said())["1"])) {
		t.Errorf("logs of the last hour: exit %d, %s%s", code, out, errs)
	}
	if out, errs, code := f.bellows("logs", "counts", "--rank", "1", "--since", "2100-01-01T00:00:00Z"); code != 0 || out != "" {
		t.Errorf("logs of the future: exit %d, %s%s", code, out, errs)
	}
	if out, errs, code := f.bellows("logs", "counts", "--tail", "2"); code != 0 || strings.Count(out, "\n") != 4 {
		t.Errorf("the end of the logs: exit %d, %s%s", code, out, errs)
	}
	if _, errs, code := f.bellows("logs", "counts", "--rank", "9"); code != 1 || !strings.Contains(errs, "it has had ranks 0 to 1 so far") {
		t.Errorf("logs of a rank that is none: exit %d, %s", code, errs)
	}
	// Once each and in order; where rotated lines could not be read in time, words say so.
	last, jumps := map[int]int{}, 0
	for line := range strings.Lines(s.out.String()) {
		var rank, n, prefix int
		if _, err := fmt.Sscanf(line, "[%d] rank %d line %d", &prefix, &rank, &n); err != nil || n <= last[rank] || n > last[rank]+1 && last[rank] >= 3000 {
			t.Errorf("after line %d of rank %d comes %q", last[rank], rank, line)
		}
		if n > last[rank]+1 {
			jumps++
		}
		last[rank] = n
	}
	if gaps := strings.Count(s.errs.String(), "lines are missing here") + strings.Count(s.errs.String(), "is not kept"); jumps > gaps {
		t.Errorf("%d gaps, of which %d were told:\n%s", jumps, gaps, s.errs.String())
	}
	if !strings.Contains(s.said(), "node n2: its agent does not answer; what rank ") {
		t.Errorf("nothing was said of n2's agent: %s", s.errs.String())
	}
	f.awaitPhase(cluster.JobID(f.show("counts").ID), cluster.Stopped)
}

// lastLines returns the number of the last line of each rank.
func lastLines(said string) map[string]int {
	last := map[string]int{}
	for line := range strings.Lines(said) {
		var rank, n, prefix int
		if _, err := fmt.Sscanf(line, "[%d] rank %d line %d", &prefix, &rank, &n); err == nil {
			last[fmt.Sprint(rank)] = n
		}
	}
	return last
}
