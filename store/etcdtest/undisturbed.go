package etcdtest

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/store"
)

// undisturbedTries is how often Undisturbed tries before it gives a machine up.
const undisturbedTries = 20

// Undisturbed runs a try of something that holds as long as etcd and this process get
// their turns, and runs it again where a call to etcd took longer than within: what a
// busy machine keeps from running misses deadlines, and should. Each try needs a state
// of its own. The last error of a try that was not disturbed fails the test.
func Undisturbed(t testing.TB, endpoint string, within time.Duration, try func() error) {
	t.Helper()
	s := Open(t, endpoint)
	for range undisturbedTries {
		longest := slowest(t, s)
		err := try()
		switch took := longest(); {
		case err == nil:
			return
		case took <= within:
			t.Fatalf("%v, though no call to etcd took more than %v", err, took)
		default:
			t.Logf("a call to etcd took %v, so that this does not count: %v", took, err)
		}
	}
	t.Fatalf("of %d tries, each was disturbed by calls to etcd that took more than %v", undisturbedTries, within)
}

// slowest calls etcd until the function that it returns is called, which says how long
// the longest of the calls took.
func slowest(t testing.TB, s *store.Store) func() time.Duration {
	t.Helper()
	end, took := make(chan struct{}), make(chan time.Duration)
	go func() {
		var longest time.Duration
		for {
			begun := time.Now()
			if _, _, err := s.Get(t.Context(), "undisturbed"); err != nil {
				t.Errorf("probe: %v", err)
			}
			select {
			case <-end:
				took <- max(longest, time.Since(begun))
				return
			case <-time.After(20 * time.Millisecond):
			}
			longest = max(longest, time.Since(begun))
		}
	}()
	return func() time.Duration {
		close(end)
		return <-took
	}
}
