// Package userdb asks the system who a user is: by files, LDAP or whatever else its
// name service is set to.
//
// It promises that no caller waits for longer than a bound, although a call of the C
// library cannot be cancelled: a lookup that hangs is left on its goroutine, and a
// bounded number of them may exist, for one user and in all. A name that was known stays known while the
// service does not answer. Groups are asked anew each time, since they may be taken
// away.
package userdb

import (
	"context"
	"errors"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// namePatience is how long Name waits: a person waits for most of the answers.
	namePatience = 2 * time.Second
	// hungAfter is how long a lookup runs before it counts as one that hangs.
	hungAfter = time.Minute
	// mostRunning bounds the lookups of one kind that run and do not hang yet.
	mostRunning = 16
	// mostHung bounds the lookups of one kind that hang. Each takes a thread: once so
	// many hang, none starts until one ends.
	mostHung = 256
	// mostOfKey bounds the lookups of one key, so that few keys cannot reach mostHung.
	mostOfKey = 4
	// freshFor is how long a name is not asked for again.
	freshFor = time.Minute
	// mostNames bounds the names that are kept.
	mostNames = 4096
)

// ErrNoAnswer means that the name service has not answered in time. Asking again may help.
var ErrNoAnswer = errors.New("this node's user database (NSS, LDAP) does not answer")

// Account is what the system says of a user.
type Account struct {
	UID, GID string
	Groups   []string // their numbers
}

var (
	names    = newNames(askName)
	accounts = newLookups(askAccount)
)

// Name returns the name of a user. An error that is not ErrNoAnswer or ctx's means
// that the system knows no such user.
func Name(ctx context.Context, uid uint32) (string, error) { return names.of(ctx, uid) }

// Find returns the account of a user name, or ErrNoAnswer after patience. Without cgo it knows the users of
// /etc/passwd only.
func Find(ctx context.Context, name string, patience time.Duration) (Account, error) {
	return accounts.get(ctx, name, patience)
}

func askName(uid uint32) (string, error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return "", err
	}
	return u.Username, nil
}

func askAccount(name string) (Account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return Account{}, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return Account{}, err
	}
	return Account{UID: u.Uid, GID: u.Gid, Groups: groups}, nil
}

// nameCache remembers names.
type nameCache struct {
	lookups *lookups[uint32, string]

	mu    sync.Mutex
	known map[uint32]knownName
}

type knownName struct {
	name string
	at   time.Time
}

func newNames(ask func(uint32) (string, error)) *nameCache {
	return &nameCache{lookups: newLookups(ask), known: map[uint32]knownName{}}
}

func (c *nameCache) of(ctx context.Context, uid uint32) (string, error) {
	c.mu.Lock()
	last, known := c.known[uid]
	c.mu.Unlock()
	if known && time.Since(last.at) < freshFor {
		return last.name, nil
	}
	name, err := c.lookups.get(ctx, uid, namePatience)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		if len(c.known) >= mostNames {
			clear(c.known)
		}
		c.known[uid] = knownName{name, time.Now()}
	case known && (errors.Is(err, ErrNoAnswer) || ctx.Err() != nil):
		return last.name, nil
	default:
		delete(c.known, uid)
	}
	return name, err
}

// lookups asks for a key once at a time, and its callers can leave. A lookup that
// hangs blocks neither its key nor the others for ever: after hungAfter another one of
// the key may start, and it no longer counts as running.
type lookups[K comparable, V any] struct {
	ask func(K) (V, error)

	mu  sync.Mutex
	all map[K][]*lookup[V] // those that have not ended, the newest last
}

type lookup[V any] struct {
	began time.Time
	done  chan struct{}
	value V // these two are valid once done is closed
	err   error
}

func (u *lookup[V]) hangs() bool { return time.Since(u.began) >= hungAfter }

func newLookups[K comparable, V any](ask func(K) (V, error)) *lookups[K, V] {
	return &lookups[K, V]{ask: ask, all: map[K][]*lookup[V]{}}
}

// get waits for the lookup of a key that is running, or for a new one.
func (l *lookups[K, V]) get(ctx context.Context, key K, patience time.Duration) (value V, err error) {
	found := l.start(key)
	if found == nil {
		return value, ErrNoAnswer
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-found.done:
		return found.value, found.err
	case <-limit.C:
		return value, ErrNoAnswer
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// start returns the newest lookup of a key, or a new one if there is none or it hangs;
// nil if the bounds allow no first one.
func (l *lookups[K, V]) start(key K) *lookup[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	var newest *lookup[V]
	if of := l.all[key]; len(of) > 0 {
		newest = of[len(of)-1]
	}
	if newest != nil && !newest.hangs() || !l.fits(key) {
		return newest
	}
	found := &lookup[V]{began: time.Now(), done: make(chan struct{})}
	l.all[key] = append(l.all[key], found)
	// Nothing joins this goroutine: the call in it cannot be ended.
	go func() {
		found.value, found.err = l.ask(key)
		l.end(key, found)
		close(found.done)
	}()
	return found
}

// fits reports whether the bounds allow another lookup of a key.
func (l *lookups[K, V]) fits(key K) bool {
	running, hung := 0, 0
	for _, of := range l.all {
		for _, u := range of {
			if u.hangs() {
				hung++
			} else {
				running++
			}
		}
	}
	return running < mostRunning && hung < mostHung && len(l.all[key]) < mostOfKey
}

func (l *lookups[K, V]) end(key K, ended *lookup[V]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[key] = slices.DeleteFunc(l.all[key], func(u *lookup[V]) bool { return u == ended })
	if len(l.all[key]) == 0 {
		delete(l.all, key)
	}
}
