package checkpoint

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/cluster"
)

// Leftovers returns the directories, sorted, that generations before the
// running one have left and that hold none of the checkpoints to keep, given
// as directories: saves that were never committed, and generations of which
// nothing is left to keep. All are relative to the root of the Blobs. Nothing of an
// older generation can be committed any more, so they are not needed.
func Leftovers(b Blobs, keep []string, running cluster.Generation) ([]string, error) {
	generations, err := list(b, ".")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, g := range generations {
		if !ended(g, running) || slices.Contains(keep, g.Name) {
			continue
		}
		if !holds(g.Name, keep) {
			found = append(found, g.Name)
			continue
		}
		steps, err := b.List(g.Name)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", g.Name, err)
		}
		for _, s := range steps {
			dir := path.Join(g.Name, s.Name)
			if _, ok := parseStep(s); ok && !holds(dir, keep) {
				found = append(found, dir)
			}
		}
	}
	return found, nil
}

// holds reports whether a directory is one of those to keep, or has one of them below it.
func holds(dir string, keep []string) bool {
	return slices.ContainsFunc(keep, func(k string) bool { return k == dir || strings.HasPrefix(k, dir+"/") })
}

// ended reports whether an entry is the directory of a generation before the running one.
func ended(e Entry, running cluster.Generation) bool {
	g, ok := layout.ParseGeneration(e.Name)
	return ok && e.Kind == Directory && g < running
}
