package record_test

import (
	"testing"

	"github.com/bellows-ml/bellows/record"
)

// A node is ready when as many processes wait as were asked for, or none ever will; one that does not say how many is of an
// older version, which forks any number.
func TestReadyIsOfAllThatWasAskedFor(t *testing.T) {
	next := record.Next{Generation: 2, Nonce: "a", Workers: 4}
	for name, c := range map[string]struct {
		said record.Ready
		want bool
	}{
		"all":                    {record.Ready{Generation: 2, Nonce: "a", Begun: true, Workers: 4}, true},
		"fewer":                  {record.Ready{Generation: 2, Nonce: "a", Begun: true, Workers: 3}, false},
		"cold":                   {record.Ready{Generation: 2, Nonce: "a", Begun: true, Cold: "why"}, true},
		"begun":                  {record.Ready{Generation: 2, Nonce: "a", Begun: true}, false},
		"an older agent":         {record.Ready{Generation: 2, Nonce: "a"}, true},
		"of another nonce":       {record.Ready{Generation: 2, Nonce: "b", Workers: 4}, false},
		"of a generation before": {record.Ready{Generation: 1, Nonce: "a", Workers: 4}, false},
	} {
		if got := c.said.Of(next); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
