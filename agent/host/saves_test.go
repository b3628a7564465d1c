package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/run"
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

func TestSavesApart(t *testing.T) {
	t.Parallel()
	at := func(rank int, steps ...int64) (list []run.Save) {
		for _, step := range steps {
			list = append(list, run.Save{Step: step, Rank: rank})
		}
		return list
	}
	for name, c := range map[string]struct {
		saves [][]run.Save
		ranks []int
		want  string
	}{
		"none":                      {ranks: []int{0, 1}},
		"one rank":                  {saves: [][]run.Save{at(0, 1, 2, 3)}, ranks: []int{0}},
		"all alike":                 {saves: [][]run.Save{at(2, 1, 2, 3), at(3, 1, 2, 3)}, ranks: []int{2, 3}},
		"one is still writing":      {saves: [][]run.Save{at(0, 1, 2, 3), at(1, 1, 2)}, ranks: []int{0, 1}},
		"one begins to save":        {saves: [][]run.Save{at(0, 1)}, ranks: []int{0, 1}},
		"rank 0 alone":              {saves: [][]run.Save{at(0, 1, 2)}, ranks: []int{0, 1}, want: "rank 0 saves steps that rank 1 does not"},
		"at different steps":        {saves: [][]run.Save{at(0, 20, 40), at(1, 21, 41)}, ranks: []int{0, 1}, want: "rank 0 saves steps that rank 1 does not"},
		"apart since a while":       {saves: [][]run.Save{at(4, 1, 2, 3), at(5, 1, 2, 3), at(6, 1)}, ranks: []int{4, 5, 6}, want: "rank 4 saves steps that rank 6 does not"},
		"apart, and together again": {saves: [][]run.Save{at(0, 1, 2, 3), at(1, 3)}, ranks: []int{0, 1}},
		"missed one":                {saves: [][]run.Save{at(0, 1, 2, 3), at(1, 1, 3)}, ranks: []int{0, 1}},
	} {
		var all []run.Save
		for _, s := range c.saves {
			all = append(all, s...)
		}
		if got := savesApart(all, c.ranks); (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
