package forecast_test

import (
	"testing"

	"github.com/bellows-ml/bellows/allocator/forecast"
)

// Careful speeds are never above those expected, and those that are not measured are
// further below them.
func TestCareful(t *testing.T) {
	f := forecast.Of(measured())
	careful := f.Careful()
	for i, v := range careful {
		if !(v > 0 && v <= f.Speeds[i]) {
			t.Errorf("%v of %v", careful, f.Speeds)
		}
	}
	if len(careful) != len(f.Speeds) || careful[3]/f.Speeds[3] >= careful[1]/f.Speeds[1] {
		t.Errorf("%v of %v", careful, f.Speeds)
	}
	if f := forecast.Of(forecast.Job{Sizes: sizes}); f.Careful() != nil {
		t.Errorf("nothing was measured, but %v", f.Careful())
	}
}
