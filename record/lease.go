package record

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Elapsed returns how far Advance has come.
func (m *Memory) Elapsed() time.Duration { return m.elapsed }

// Grant makes a lease that expires when ttl passes without a KeepAlive.
func (m *Memory) Grant(ttl time.Duration) int64 {
	m.granted++
	m.leases[m.granted] = memoryLease{id: m.granted, ttl: ttl, expires: m.elapsed + ttl}
	return m.granted
}

// KeepAlive makes the lease's time begin anew.
func (m *Memory) KeepAlive(id int64) error {
	l, ok := m.leases[id]
	if !ok {
		return fmt.Errorf("keep lease %x alive: %w", id, ErrLeaseNotFound)
	}
	l.expires = m.elapsed + l.ttl
	m.leases[id] = l
	return nil
}

// TimeToLive returns how long the lease has left.
func (m *Memory) TimeToLive(id int64) (time.Duration, error) {
	l, ok := m.leases[id]
	if !ok {
		return 0, fmt.Errorf("time to live of lease %x: %w", id, ErrLeaseNotFound)
	}
	return l.expires - m.elapsed, nil
}

// Revoke ends a lease: its keys go at one revision.
func (m *Memory) Revoke(id int64) error {
	if _, ok := m.leases[id]; !ok {
		return fmt.Errorf("revoke lease %x: %w", id, ErrLeaseNotFound)
	}
	delete(m.leases, id)
	next := m.revision + 1
	for _, key := range slices.Clone(m.keys) {
		if m.kvs[key].Lease == id {
			m.remove(key, next)
		}
	}
	return nil
}

// NextExpiry returns when, in time elapsed, the first lease will expire unless
// it is kept alive. A simulator advances no further without looking.
func (m *Memory) NextExpiry() (time.Duration, bool) {
	l, ok := m.firstToExpire()
	return l.expires, ok
}

// Advance lets time pass. Leases whose time is over expire in the order of
// their deadlines, each at a revision of its own.
func (m *Memory) Advance(by time.Duration) {
	if by < 0 {
		panic(fmt.Sprintf("record: advance by %v: time does not run backwards", by))
	}
	m.elapsed += by
	for {
		l, ok := m.firstToExpire()
		if !ok || l.expires > m.elapsed {
			return
		}
		if err := m.Revoke(l.id); err != nil {
			panic("record: lease listed but not there: " + err.Error())
		}
	}
}

// firstToExpire returns the lease with the earliest deadline; of equals, the oldest.
func (m *Memory) firstToExpire() (memoryLease, bool) {
	var first memoryLease
	for _, l := range m.leases {
		if first.id == 0 || cmp.Or(cmp.Compare(l.expires, first.expires), cmp.Compare(l.id, first.id)) < 0 {
			first = l
		}
	}
	return first, first.id != 0
}
