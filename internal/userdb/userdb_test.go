package userdb

import (
	"context"
	"errors"
	"os/user"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A lookup that hangs in the C library cannot be cancelled: its callers leave it, and
// there are never more than some of them.
func TestALookupThatHangsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, started := make(chan struct{}), atomic.Int32{}
		l := newLookups(func(key int) (string, error) {
			started.Add(1)
			<-answer
			return strconv.Itoa(key), nil
		})
		for range 2 {
			for key := range mostHanging + 5 {
				began := time.Now()
				if _, err := l.get(t.Context(), key); !errors.Is(err, ErrNoAnswer) || time.Since(began) > patience {
					t.Fatalf("lookup %d: %v after %s", key, err, time.Since(began))
				}
			}
		}
		if n := started.Load(); n != mostHanging {
			t.Errorf("%d lookups hang, want %d", n, mostHanging)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.get(gone, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has gone: %v", err)
		}
		close(answer)
		synctest.Wait()
		if got, err := l.get(t.Context(), mostHanging+3); err != nil || got != strconv.Itoa(mostHanging+3) {
			t.Errorf("once the service answers again: %q, %v", got, err)
		}
	})
}

func TestANameStaysKnownWhileTheServiceIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, asked := make(chan struct{}), 0
		hangs, unknown := false, false
		c := newNames(func(uint32) (string, error) {
			asked++
			if hangs {
				<-away
			}
			if unknown {
				return "", user.UnknownUserIdError(7)
			}
			return "ann", nil
		})
		is := func(what, want string, wrong error) {
			t.Helper()
			if got, err := c.of(t.Context(), 7); got != want || !errors.Is(err, wrong) {
				t.Errorf("%s: %q, %v", what, got, err)
			}
		}
		is("asked", "ann", nil)
		is("known", "ann", nil)
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		hangs = true
		time.Sleep(2 * freshFor)
		is("while the service hangs", "ann", nil)
		close(away)
		synctest.Wait()
		unknown = true
		time.Sleep(2 * freshFor)
		is("once the user was removed", "", user.UnknownUserIdError(7))
	})
}

func TestTheSystemKnowsRoot(t *testing.T) {
	if name, err := Name(t.Context(), 0); err != nil || name != "root" {
		t.Errorf("uid 0 is %q, %v", name, err)
	}
	if a, err := Find(t.Context(), "root"); err != nil || a.UID != "0" || a.GID != "0" || len(a.Groups) == 0 {
		t.Errorf("root is %+v, %v", a, err)
	}
	if _, err := Find(t.Context(), "no such user"); err == nil || errors.Is(err, ErrNoAnswer) {
		t.Errorf("a user that does not exist: %v", err)
	}
}
