package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fidelity starts `bellows-lab bench fidelity` on two small mixes, with its folders in this room.
func (d devRoom) fidelity() *session {
	d.t.Helper()
	lab, program := filepath.Join(d.dir, "lab", "bellows-lab"), binary
	if testing.Short() {
		program = plain
	}
	if err := build("../cmd/bellows-lab", lab, raced() && !testing.Short()); err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command(lab, "bench", "fidelity", "--bellows", program, "--mixes", "2", "--scale", "0.05", "--policy", "greedy", "--interval", "1s", "-o", "json")
	// Its jobs run python3: Debian's, which starts in a tenth of the time of a version manager's.
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "TMPDIR="+d.dir, "PATH=/usr/bin:"+os.Getenv("PATH"))
	return startSession(d.t, cmd)
}

// The simulator is asked about the same jobs that real processes train. How close it comes
// depends on the machine, and is not judged here; that both trained all jobs is.
func TestTheSimulatorIsComparedWithACluster(t *testing.T) {
	t.Parallel()
	d := newDevRoom(t)
	s := d.fidelity()
	if code := s.waitWithin(4 * patience); code != 0 { // a minute, most of it training
		t.Fatalf("exit status %d: %s", code, s.said())
	}
	text := s.out.String()
	var report struct {
		Rows []struct {
			Mix, Jobs    int
			Policy       string
			RealS        float64 `json:"real_s"`
			SimulatedS   float64 `json:"simulated_s"`
			StartCostS   float64 `json:"start_cost_s"`
			AssumedCostS float64 `json:"assumed_cost_s"`
		}
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if len(report.Rows) != 2 {
		t.Fatalf("%d rows, want 2: %s", len(report.Rows), text)
	}
	for i, r := range report.Rows {
		if r.Mix != i+1 || r.Policy != "greedy" || r.Jobs < 6 || r.RealS <= 0 || r.SimulatedS <= 0 || r.StartCostS <= 0 {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	if report.Rows[0].AssumedCostS != report.Rows[1].StartCostS || report.Rows[1].AssumedCostS != report.Rows[0].StartCostS {
		t.Errorf("the simulator did not assume what the other mix showed: %s", text)
	}
	d.noFidelityLeft()
}

func TestAComparisonIsInterrupted(t *testing.T) {
	t.Parallel()
	d := newDevRoom(t)
	s := d.fidelity()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		saved, err := filepath.Glob(filepath.Join(d.dir, "bellows-fidelity-*", "checkpoints", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(saved) > 0 {
			break // a worker has started
		}
		if time.Now().After(deadline) {
			t.Fatalf("no worker starts: %s", s.said())
		}
	}
	s.signal(os.Interrupt)
	if code := s.wait(); code != 1 || !strings.Contains(s.said(), "interrupted: the cluster was ended") {
		t.Errorf("exit status %d after Ctrl-C: %s", code, s.said())
	}
	d.noFidelityLeft()
}

// noFidelityLeft demands that no process and no folder of a comparison is left.
func (d devRoom) noFidelityLeft() {
	d.t.Helper()
	if left := d.leftovers(); len(left) > 0 {
		d.t.Errorf("processes %v are left", left)
	}
	if folders, _ := filepath.Glob(filepath.Join(d.dir, "bellows-fidelity-*")); len(folders) > 0 {
		d.t.Errorf("folders are left: %v", folders)
	}
}
