package layout

import (
	"math"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		Path("/c", "train-abc", 3, "k2"):      "/c/train-abc/g00000003-k2",
		Path("/c/", "j", 12, ""):              "/c/j/g00000012",
		Probe("/c", "j"):                      "/c/j/probe",
		Step(700):                             "step-000000000700",
		Rank(1):                               "rank-00001",
		Rank(123456):                          "rank-123456",
		Part(8):                               ".part-00008.json",
		Generation(math.MaxInt64, "0azq"):     "g9223372036854775807-0azq",
		Generation(cluster.Generation(1), ""): "g00000001",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// What is made is read; what another program has named is not taken for ours.
func TestNamesAreRead(t *testing.T) {
	for _, g := range []cluster.Generation{1, 99999999, 100000000, math.MaxInt64} {
		for _, nonce := range []string{"", "k2x7"} {
			if got, ok := ParseGeneration(Generation(g, nonce)); !ok || got != g {
				t.Errorf("%s: %d, %t", Generation(g, nonce), got, ok)
			}
		}
	}
	for _, name := range []string{"", "g1", "g0000000x", "g00000001-", "g00000001-K", "xg00000001", "g00000001 ", "g00000001-a-b", "g99999999999999999999", "probe", Trash} {
		if g, ok := ParseGeneration(name); ok {
			t.Errorf("%q is taken for generation %d", name, g)
		}
	}
	for name, want := range map[string]int64{Step(0): 0, Step(700): 700, "step-7": 7, "step-007": 7, Step(math.MaxInt64): math.MaxInt64} {
		if got, ok := ParseStep(name); !ok || got != want {
			t.Errorf("%s: %d, %t, want %d", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "step-", "step--4", "step-x", "step-+4", "7", "step-9223372036854775808", "Step-1"} {
		if step, ok := ParseStep(name); ok {
			t.Errorf("%q is taken for step %d", name, step)
		}
	}
}
