package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// saved makes a committed checkpoint that is named by where it comes from.
func committed(g cluster.Generation, step int64) record.Checkpoint {
	dir := fmt.Sprintf("g%d/%d", g, step)
	return record.Checkpoint{Generation: g, Step: step, Dir: dir, ManifestSHA256: "sum of " + dir}
}

func TestChoose(t *testing.T) {
	bad := func(cs ...record.Checkpoint) (list []record.BadCheckpoint) {
		for _, c := range cs {
			list = append(list, record.BadCheckpoint{Checkpoint: c})
		}
		return list
	}
	a, b, c := committed(1, 100), committed(1, 200), committed(2, 150)
	for _, x := range []struct {
		name    string
		history []record.Checkpoint
		bad     []record.BadCheckpoint
		want    string
	}{
		{"the newest", []record.Checkpoint{b, a}, nil, "g1/200"},
		{"not a bad one", []record.Checkpoint{a, b}, bad(b), "g1/100"},
		{"what was saved after falling back is newer, though at a smaller step", []record.Checkpoint{a, b, c}, nil, "g2/150"},
		{"bad is the checkpoint, not its step", []record.Checkpoint{a, committed(2, 200)}, bad(b), "g2/200"},
		{"none is left", []record.Checkpoint{a}, bad(a), ""},
		{"there never was one", nil, nil, ""},
	} {
		got, ok := Choose(x.history, x.bad)
		if got.Dir != x.want || ok != (x.want != "") {
			t.Errorf("%s: %q, %t, want %q", x.name, got.Dir, ok, x.want)
		}
	}
}

func TestPrune(t *testing.T) {
	kept := func(step int64, how string) Kept {
		return Kept{Checkpoint: committed(1, step), Verified: how != "", Pinned: how == "pinned"}
	}
	for _, c := range []struct {
		name    string
		history []Kept
		keep    int
		want    string
	}{
		{"two verified stay", []Kept{kept(3, "v"), kept(1, "v"), kept(2, "v"), kept(4, "v")}, 2, "[g1/1 g1/2]"},
		{"one alone is never enough", []Kept{kept(1, "v"), kept(2, "v"), kept(3, "v")}, 0, "[g1/1]"},
		{"what was not verified does not count", []Kept{kept(1, "v"), kept(2, "v"), kept(3, ""), kept(4, "")}, 2, "[]"},
		{"nor does it stay for ever", []Kept{kept(1, ""), kept(2, "v"), kept(3, "v")}, 2, "[g1/1]"},
		{"the newest stays, verified or not", []Kept{kept(1, "v"), kept(2, "v"), kept(3, "")}, 2, "[]"},
		{"a pinned one stays", []Kept{kept(1, "pinned"), kept(2, "v"), kept(3, "v"), kept(4, "v")}, 2, "[g1/2]"},
		{"more if asked for", []Kept{kept(1, "v"), kept(2, "v"), kept(3, "v"), kept(4, "v")}, 3, "[g1/1]"},
		{"nothing", nil, 2, "[]"},
	} {
		if got := fmt.Sprint(dirs(Prune(c.history, c.keep))); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func dirs(list []record.Checkpoint) []string {
	names := []string{}
	for _, c := range list {
		names = append(names, c.Dir)
	}
	return names
}

func TestPruneSparesADirectoryThatHoldsOneThatStays(t *testing.T) {
	whole := Kept{Checkpoint: committed(1, 1), Verified: true}
	whole.Dir = "g1"
	history := []Kept{whole}
	for step := int64(2); step < 5; step++ {
		history = append(history, Kept{Checkpoint: committed(1, step), Verified: true})
	}
	if got := fmt.Sprint(dirs(Prune(history, 2))); got != "[g1/2]" {
		t.Errorf("%s would be deleted, though g1 holds what stays", got)
	}
}

// Whatever the history: what is deleted has two verified ones after it, and pruning again finds nothing more.
func TestPruneKeepsItsPromise(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var history []Kept
		for step := range int64(r.IntN(12)) {
			history = append(history, Kept{Checkpoint: committed(1, step), Verified: r.IntN(3) > 0, Pinned: r.IntN(6) == 0})
		}
		r.Shuffle(len(history), func(i, j int) { history[i], history[j] = history[j], history[i] })
		gone := Prune(history, r.IntN(4))
		left := slices.DeleteFunc(slices.Clone(history), func(k Kept) bool { return slices.Contains(gone, k.Checkpoint) })
		for _, c := range gone {
			newer := 0
			for _, k := range left {
				if k.Verified && k.Step > c.Step {
					newer++
				}
			}
			if newer < MinKeep {
				t.Errorf("seed %d: %s goes with %d verified ones after it", seed, c.Dir, newer)
			}
		}
		if again := Prune(left, MinKeep); len(again) > 0 && len(gone) > 0 && older(again[0], gone[0]) < 0 {
			t.Errorf("seed %d: %v was forgotten", seed, again)
		}
	}
}

func TestCheckRoom(t *testing.T) {
	if err := CheckRoom(120, 100); err != nil {
		t.Error(err)
	}
	if err := CheckRoom(119, 100); err == nil {
		t.Error("119 bytes pass as room for 1.2 times 100")
	}
}
