package checkpoint_test

import (
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
)

func TestLeftovers(t *testing.T) {
	d := disk(t,
		"g00000001/step-10/x",                           // the whole generation may go
		"g00000002/step-000000000020/rank-00000/x",      // kept
		"g00000002/step-000000000025/.rank-00000.tmp/x", // a save that was cut short
		"g00000002/notes/x",                             // not ours to judge
		"g00000003/model",                               // kept as a whole
		"g00000004/step-40/x",                           // running
		"g00000005/step-50/x",                           // from the future
		"data/step-1/x", "g1/x", "g00000000001",         // no generations
	)
	keep := []string{"g00000002/step-000000000020", "g00000003"}
	got, err := checkpoint.Leftovers(d, keep, 4)
	if want := []string{"g00000001", "g00000002/step-000000000025"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, dir := range got {
		if err = d.Delete(dir); err != nil {
			t.Error(err)
		}
	}
	if got, err = checkpoint.Leftovers(d, keep, 4); err != nil || len(got) > 0 {
		t.Errorf("left after all were deleted: %v, %v", got, err)
	}
	if got, err = checkpoint.Leftovers(disk(t), nil, 4); err != nil || len(got) > 0 {
		t.Errorf("in an empty directory: %v, %v", got, err)
	}
}
