package checkpoint

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/recordtest"
)

// What other nodes say that they have saved makes a manifest that reads back, or none.
func TestPartsMadeWrong(t *testing.T) {
	const seeds = 2000
	merged := 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 3))
		text, err := json.Marshal([]record.Saved{part(0, 1), part(2, 3)})
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + rng.IntN(3) {
			text = recordtest.Value(rng, text)
		}
		var parts []record.Saved
		if json.Unmarshal(text, &parts) != nil {
			continue
		}
		m, err := Merge(title(4), parts)
		if err != nil {
			continue
		}
		merged++
		again, _, err := m.Encode()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if _, err = Decode(again); err != nil {
			t.Errorf("seed %d: a manifest that cannot be read: %v\n%s", seed, err, again)
		}
	}
	if merged == 0 || merged > seeds/2 {
		t.Errorf("%d of %d were merged: nothing is tried", merged, seeds)
	}
}

// FuzzDecode: whatever lies there as a manifest is one, or is refused.
func FuzzDecode(f *testing.F) {
	m, err := Merge(title(4), []record.Saved{part(0, 1), part(2, 3)})
	if err != nil {
		f.Fatal(err)
	}
	text, _, err := m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Decode(text)
		if err != nil {
			return
		}
		again, digest, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		n, err := Decode(again)
		if err != nil {
			t.Fatalf("it does not read back: %v", err)
		}
		if _, other, err := n.Encode(); err != nil || other != digest {
			t.Errorf("two forms of one manifest: %v", err)
		}
	})
}
