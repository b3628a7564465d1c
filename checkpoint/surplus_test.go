package checkpoint_test

import (
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
)

func TestSurplus(t *testing.T) {
	d := disk(t,
		"g00000001/step-10/x",               // an older generation's, with nothing to keep
		"g00000002/step-000000000020/x",     // kept
		"g00000002/step-000000000030/x",     // never committed
		"g00000003/step-000000000040/x",     // the running one's, overtaken
		"g00000003/step-000000000045/own/x", // kept, and not where we would look for it
		"g00000003/step-000000000050/x",     // kept
		"g00000003/step-000000000060/x",     // committed last
		"g00000003/step-000000000070/x",     // may be committed yet
		"g00000003/.step-000000000005.x/x",  // being written
		"g00000004/step-80/x",               // from the future
		"notes/step-1/x",                    // not ours
	)
	keep := []string{"g00000002/step-000000000020", "g00000003/step-000000000045/own", "g00000003/step-000000000050", "g00000003/step-000000000060"}
	for _, c := range []struct {
		name string
		r    checkpoint.Retain
		want []string
	}{
		{
			"all that is overtaken",
			checkpoint.Retain{Keep: keep, Running: 3, Below: 60},
			[]string{"g00000001", "g00000002/step-000000000030", "g00000003/step-000000000040"},
		},
		{
			"nothing of the running generation before its first commit",
			checkpoint.Retain{Keep: keep, Running: 3, Below: -1},
			[]string{"g00000001", "g00000002/step-000000000030"},
		},
		{"nothing where nothing is to be kept", checkpoint.Retain{Running: 3, Below: 60}, nil},
	} {
		if got, err := checkpoint.Surplus(d, c.r); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}
