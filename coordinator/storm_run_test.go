package coordinator_test

import (
	"flag"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/coordinator"
)

var (
	seeds = flag.Int("seeds", 0, "how many storms to live through (0 = 300, with -short 60)")
	seed  = flag.Uint64("seed", 0, "the first of them; a failing test names it")
	trail = flag.Bool("trail", false, "show everything that happened in a failing storm")
)

// storms is how many storms to live through.
func storms() int {
	switch {
	case *seeds > 0:
		return *seeds
	case testing.Short():
		return someOf
	}
	return leastOf
}

const (
	badWeather = 60 * time.Second
	aftermath  = 20 * time.Minute // far more than every wait and deadline together
)

// weather lives through one storm.
func weather(seed uint64, without coordinator.Rule) *storm {
	s := newStorm(seed, without)
	s.run(badWeather, func() bool { return false })
	if len(s.faults) == 0 {
		s.rest()
		s.run(s.now+aftermath, s.over)
	}
	if len(s.faults) == 0 {
		s.run(s.now+5*time.Second, func() bool { return false }) // let the last workers go
		s.checkEnd()
	}
	if s.brief && len(s.faults) == 0 {
		s.run(s.now+10*time.Minute, func() bool { return false })
		s.checkForgotten()
	}
	return s
}

// Whatever goes wrong, no invariant is broken, and afterwards every job goes on, ends or says why not.
func TestStorms(t *testing.T) {
	const lanes = 8
	var mu sync.Mutex
	all := map[string]tally{}
	t.Cleanup(func() {
		if storms() >= someOf { // fewer may happen to do less
			checkTally(t, all)
		}
	})
	for lane := range lanes {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for i := lane; i < storms(); i += lanes {
				s := weather(*seed+uint64(i), 0)
				mu.Lock()
				add(all, s)
				mu.Unlock()
				if len(s.faults) > 0 {
					t.Errorf("go test ./coordinator -run Storms -seeds 1 -seed %d -trail\n%s", *seed+uint64(i), strings.Join(s.faults, "\n"))
					if *trail {
						t.Log(strings.Join(s.trail, "\n"))
					}
					return
				}
			}
		})
	}
}
