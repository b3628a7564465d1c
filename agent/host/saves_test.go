package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A manifest that cannot be written costs its checkpoint and nothing else: not when
// its run is gone while another member of the world has still to stop, either.
func TestManifestCannotBeWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	log := f.logged(s)
	script := `d="$BELLOWS_CHECKPOINT_DIR/step-7"; mkdir -p "$d/.MANIFEST.json.tmp/x" "$d/MANIFEST.json/x"; echo state > "$d/model"; : > "$d/COMPLETE"
		trap 'exit 143' TERM; : > up; while :; do sleep 0.02; done`
	j := f.job("jammed", []string{"/bin/sh", "-c", script}, map[string]int{"n1": 1}, "n1")
	j.Members = append(j.Members, cluster.Member{Node: "n2", AliveRev: 1, Devices: []cluster.DeviceID{"SIM-n2-0"}, FirstRank: 1})
	f.start(j)
	f.until("the script", func() bool { _, err := os.Stat(filepath.Join(f.dir, "up")); return err == nil })
	f.haltAs(j, nil, true)
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	if !strings.Contains(log.String(), "a checkpoint is lost") || !f.absent(record.OfferKey("n1", j.Job, 1, 7)) {
		t.Error("a checkpoint without a manifest was offered")
	}
	f.until("its run to go", func() bool { return f.empty(s) })
	next := f.job("next", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(next)
	ack[record.Started](f, next, "n1", record.AckStarted)
}
