package checkpoint

import (
	"cmp"
	"path"

	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/cluster"
)

// Retain says what of a job's checkpoints is wanted.
type Retain struct {
	Keep    []string           `json:"keep"`    // directories relative to the root of the Blobs
	Running cluster.Generation `json:"running"` // the newest generation
	// Own is the directory of the newest generation; empty = that without a nonce.
	Own string `json:"own,omitempty"`
	// Below: of the running generation's own steps only those before this one can
	// go. Later ones may be on their way to being committed.
	Below int64 `json:"below"`
}

// Surplus returns the directories that are not needed any more, sorted: the
// Leftovers of older generations, and the running one's overtaken steps. Nothing
// is surplus while nothing is to be kept: then the records are not to be trusted.
func Surplus(b Blobs, r Retain) ([]string, error) {
	if len(r.Keep) == 0 {
		return nil, nil
	}
	found, err := Leftovers(b, r.Keep, r.Running)
	if err != nil {
		return nil, err
	}
	own := cmp.Or(r.Own, layout.Generation(r.Running, ""))
	steps, err := list(b, own)
	if err != nil {
		return nil, err
	}
	for _, e := range steps {
		dir := path.Join(own, e.Name)
		if step, ok := parseStep(e); ok && step < r.Below && !holds(dir, r.Keep) {
			found = append(found, dir)
		}
	}
	return found, nil
}
