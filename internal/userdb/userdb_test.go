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
		const patience = time.Second // twice for each key is less than hungAfter
		answer, started := make(chan struct{}), atomic.Int32{}
		l := newLookups(func(key int) (string, error) {
			started.Add(1)
			<-answer
			return strconv.Itoa(key), nil
		})
		for range 2 {
			for key := range mostRunning + 5 {
				began := time.Now()
				if _, err := l.get(t.Context(), key, patience); !errors.Is(err, ErrNoAnswer) || time.Since(began) > patience {
					t.Fatalf("lookup %d: %v after %s", key, err, time.Since(began))
				}
			}
		}
		if n := started.Load(); n != mostRunning {
			t.Errorf("%d lookups hang, want %d", n, mostRunning)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.get(gone, 0, patience); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has gone: %v", err)
		}
		close(answer)
		synctest.Wait()
		if got, err := l.get(t.Context(), mostRunning+3, patience); err != nil || got != strconv.Itoa(mostRunning+3) {
			t.Errorf("once the service answers again: %q, %v", got, err)
		}
	})
}

// A lookup that hangs for good takes neither its own key nor the others away, and the
// threads that hang are bounded, for one key and in all.
func TestLookupsThatHangBlockNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = time.Millisecond
		forever, started, hang := make(chan struct{}), atomic.Int32{}, atomic.Bool{}
		hang.Store(true)
		l := newLookups(func(int) (string, error) {
			started.Add(1)
			if hang.Load() {
				<-forever
			}
			return "ann", nil
		})
		ask := func(key int) error {
			_, err := l.get(t.Context(), key, patience)
			return err
		}
		fails := func(key int) {
			t.Helper()
			if err := ask(key); !errors.Is(err, ErrNoAnswer) {
				t.Fatalf("key %d: %v", key, err)
			}
		}
		for key := range mostRunning {
			fails(key)
		}
		hang.Store(false)
		fails(0)
		fails(1000) // as many run as may
		time.Sleep(hungAfter)
		if err := errors.Join(ask(0), ask(1000)); err != nil {
			t.Errorf("after a minute, one that had hung and another: %v", err)
		}
		hang.Store(true)
		for range 10 * mostOfKey {
			fails(1)
			time.Sleep(hungAfter)
		}
		if n := len(l.all[1]); n != mostOfKey {
			t.Errorf("%d lookups of one key hang, want %d", n, mostOfKey)
		}
		for key := range 2 * mostHung {
			fails(2000 + key)
			time.Sleep(hungAfter)
		}
		if n := started.Load() - 2; n != mostHung { // without those that were answered
			t.Errorf("%d lookups hang, want %d", n, mostHung)
		}
		close(forever)
		synctest.Wait()
		if err := ask(1); err != nil || len(l.all) != 0 {
			t.Errorf("once the service answers: %v, %d keys", err, len(l.all))
		}
	})
}

// Who can wait for longer than a person does gets the answer of a slow service.
func TestPatienceIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(string) (Account, error) {
			time.Sleep(3 * time.Second)
			return Account{UID: "7"}, nil
		}
		l := newLookups(slow)
		if _, err := l.get(t.Context(), "ann", namePatience); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("with little patience: %v", err)
		}
		time.Sleep(time.Minute)
		if a, err := l.get(t.Context(), "ann", 15*time.Second); err != nil || a.UID != "7" {
			t.Errorf("with patience: %+v, %v", a, err)
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
	if a, err := Find(t.Context(), "root", time.Minute); err != nil || a.UID != "0" || a.GID != "0" || len(a.Groups) == 0 {
		t.Errorf("root is %+v, %v", a, err)
	}
	if _, err := Find(t.Context(), "no such user", time.Minute); err == nil || errors.Is(err, ErrNoAnswer) {
		t.Errorf("a user that does not exist: %v", err)
	}
}
