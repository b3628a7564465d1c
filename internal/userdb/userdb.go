// Package userdb asks the system who a user is: by files, LDAP or whatever else its
// name service is set to.
//
// It promises that no caller waits for longer than a bound, although a call of the C
// library cannot be cancelled: a lookup that hangs is left on its goroutine, and a
// bounded number of them may exist. A name that was known stays known while the
// service does not answer. Groups are asked anew each time, since they may be taken
// away.
package userdb

import (
	"context"
	"errors"
	"os/user"
	"strconv"
	"sync"
	"time"
)

const (
	// patience is how long a lookup may take. A person waits for most of them.
	patience = 2 * time.Second
	// mostHanging bounds the lookups of one kind that run or hang. Each takes a thread.
	mostHanging = 16
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

// Find returns the account of a user name. Without cgo it knows the users of
// /etc/passwd only.
func Find(ctx context.Context, name string) (Account, error) { return accounts.get(ctx, name) }

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
	name, err := c.lookups.get(ctx, uid)
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

// lookups runs one lookup of a key at a time, and lets its callers leave it.
type lookups[K comparable, V any] struct {
	ask func(K) (V, error)

	mu      sync.Mutex
	running map[K]*lookup[V]
}

type lookup[V any] struct {
	done  chan struct{}
	value V // these two are valid once done is closed
	err   error
}

func newLookups[K comparable, V any](ask func(K) (V, error)) *lookups[K, V] {
	return &lookups[K, V]{ask: ask, running: map[K]*lookup[V]{}}
}

// get waits for the lookup of a key that is running, or for a new one.
func (l *lookups[K, V]) get(ctx context.Context, key K) (value V, err error) {
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

// start returns the lookup of a key, nil if too many others hang.
func (l *lookups[K, V]) start(key K) *lookup[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found, ok := l.running[key]; ok {
		return found
	}
	if len(l.running) >= mostHanging {
		return nil
	}
	found := &lookup[V]{done: make(chan struct{})}
	l.running[key] = found
	// Nothing joins this goroutine: the call in it cannot be ended.
	go func() {
		found.value, found.err = l.ask(key)
		l.mu.Lock()
		delete(l.running, key)
		l.mu.Unlock()
		close(found.done)
	}()
	return found
}
