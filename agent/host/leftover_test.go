package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// The run directory is the way to what a shim has left. It goes only when nothing is.
func TestRunDirectoryStaysWhereItCannotBeSwept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.writer()
	f.commit(record.Put(record.InventoryKey("n1"), record.Inventory{}))
	j := f.job("left", sleeper(), map[string]int{"n1": 1}, "n1")
	world := cluster.World{Job: j.Job, Generation: 1, Members: j.Members, Master: cluster.Endpoint{Host: "127.0.0.1", Port: 1}, BatchSize: 8}
	n.cfg.DataDir, n.cfg.LockDir = f.dir, f.dir
	order := n.launcher.order(j.JobGen, j.Spec, record.Plan{World: world})
	for _, c := range []struct {
		name, does string
		left       bool
	}{
		{"nothing", "exit 1", false},
		{"unreadable", `echo '{' > "$3/shim.json"; exit 1`, false},
		{"unseen", `printf '{"version":1,"shim":{"pid":1,"start_time":1,"boot_id":"%s"},"cgroup":"/tmp/no/cgroup"}' "$(cat /proc/sys/kernel/random/boot_id)" > "$3/shim.json"; exit 1`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.cfg.Exe = filepath.Join(f.dir, c.name)
			if err := os.WriteFile(n.cfg.Exe, []byte("#!/bin/sh\n"+c.does+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(f.dir, "r", c.name)
			_, left, err := n.launcher.launch(t.Context(), dir, order)
			if err == nil || left != c.left {
				t.Errorf("left %t, %v", left, err)
			}
			if _, err = os.Stat(dir); errors.Is(err, fs.ErrNotExist) == c.left {
				t.Errorf("the run directory: %v", err)
			}
		})
	}
}

// A file system that fails just when a plain script has ended does not cost what
// the script has saved.
func TestLastLookForAPlainCheckpointIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	log := f.logged(f.settings("n1"))
	script := `trap 'echo done > "$BELLOWS_CHECKPOINT_DIR/model"; cd /; mv "$BELLOWS_CHECKPOINT_DIR" "$BELLOWS_CHECKPOINT_DIR.away"; ln -s / "$BELLOWS_CHECKPOINT_DIR"; exit 0' TERM
: > "$BELLOWS_CHECKPOINT_DIR.up"
while :; do sleep 0.02; done`
	j := f.job("flaky", []string{"/bin/sh", "-c", script}, map[string]int{"n1": 1}, "n1")
	f.start(j)
	gen := filepath.Join(f.dir, "ck", "flaky", layout.Generation(1, ""))
	f.until("the script", func() bool { _, err := os.Stat(gen + ".up"); return err == nil })
	f.haltAs(j, nil, true)
	f.until("a look that fails", func() bool { return strings.Contains(log.String(), "cannot look for plain checkpoints") })
	if err := errors.Join(os.Remove(gen), os.Rename(gen+".away", gen)); err != nil {
		t.Fatal(err)
	}
	offer := await[record.Offer](f, record.OfferKey("n1", j.Job, 1, 0))
	if offer.Dir != gen {
		t.Errorf("offered %+v", offer)
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)
}
