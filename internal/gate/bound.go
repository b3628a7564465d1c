package gate

import "sync"

// Peer is the owner of something that is counted.
type Peer struct {
	Name string // what has the same name counts together
	Most int    // how many of it may be open; 0 = as many as in all
	// Reserve: it may take the reserved places too.
	Reserve bool
}

// Bound counts what is open, in all and of each peer. It is safe for concurrent use.
type Bound struct {
	total    int
	reserved int

	mu     sync.Mutex
	opened int
	of     map[string]int // by peer
}

// NewBound returns a bound of so many in all, of which some are reserved for Peers with Reserve.
func NewBound(total, reserved int) *Bound {
	return &Bound{total: total, reserved: reserved, of: map[string]int{}}
}

// Enter counts one more of a peer and returns the function that ends its count, or
// false if there are too many. Calling leave twice has no effect.
func (b *Bound) Enter(p Peer) (leave func(), ok bool) { return b.Take(p, 1) }

// Take is Enter for so many at once, of what is counted in bytes for example: all of
// them are within the bounds, or none is counted.
func (b *Bound) Take(p Peer, n int) (leave func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.total
	if !p.Reserve {
		room -= b.reserved
	}
	if b.opened+n > room || p.Most > 0 && b.of[p.Name]+n > p.Most {
		return nil, false
	}
	b.opened += n
	b.of[p.Name] += n
	return sync.OnceFunc(func() { b.leave(p, n) }), true
}

func (b *Bound) leave(p Peer, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened -= n
	if b.of[p.Name] -= n; b.of[p.Name] == 0 {
		delete(b.of, p.Name)
	}
}
