package host

import (
	"sync/atomic"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// reachedWithin is how fresh the last answer of etcd must be for this node to say that it reaches it.
const reachedWithin = 3 * time.Second

// session is the node's lease and alive key, as its life last reported them, and
// what follows from them: by which deadline workers are fenced. The loop owns it,
// but for silence.
type session struct {
	*shared
	presence presence
	renewed  atomic.Int64 // presence.renewed, for other goroutines
	abandon  chan int64   // to life: the alive key with this CreateRevision was deleted
	nodes    int          // how many nodes the cluster has, as last read; 0 = not known yet
}

func newSession(sh *shared) *session { return &session{shared: sh, abandon: make(chan int64, 1)} }

// changed takes in what life reports, from its goroutine.
func (s *session) changed(p presence) {
	s.renewed.Store(int64(p.renewed))
	s.Post(func() { s.presence = p })
}

// counted takes in how many nodes the cluster has, from any goroutine.
func (s *session) counted(nodes int) {
	s.Post(func() { s.nodes = nodes })
}

// joined reports whether the node is in the cluster and has read its own records.
func (s *session) joined() bool { return s.presence.aliveRev != 0 && s.records.known(selfPart) }

func (s *session) reachesEtcd() bool {
	return s.presence.aliveRev != 0 && store.Boottime()-s.presence.renewed < reachedWithin
}

// silence is for how long etcd has not answered, once that is worth reporting. Any
// goroutine may ask.
func (s *session) silence() time.Duration {
	renewed := time.Duration(s.renewed.Load())
	if since := store.Boottime() - renewed; renewed > 0 && since >= reachedWithin {
		return since
	}
	return 0
}

// checkAliveKey ends a life whose alive key was deleted while its lease went on:
// the leader counts this node as lost, so it has to come back as a new one.
func (s *session) checkAliveKey() {
	if !s.joined() {
		return
	}
	alive := s.records.self().Alive
	if alive.Exists() && alive.Create == s.presence.aliveRev || s.records.listed[selfPart] < s.presence.aliveRev {
		return
	}
	s.Log.Error().Int64("alive_rev", s.presence.aliveRev).Msg("this node's alive key is gone")
	select {
	case <-s.abandon: // of an earlier life
	default:
	}
	s.abandon <- s.presence.aliveRev
	s.presence = presence{}
}

// stillHere guards writes: they land only in this life of the node.
func (s *session) stillHere() record.Compare {
	return record.SameLife(record.AliveKey(s.cfg.Node), s.presence.aliveRev)
}

// strict reports whether workers here die when the node's lease is not renewed:
// another node may take their place, or might because the fencing record says so.
func (s *session) strict() bool {
	return fence.Strict(s.nodes) || s.records.self().Fencing.Value.AliveRev != 0
}

// deadline is what shims are told to fence by: never, where no other node could
// take this one's place. 0, which changes nothing, as long as nothing is known.
func (s *session) deadline() int64 {
	switch {
	case s.nodes == 0 || !s.records.known(selfPart):
		return 0
	case !s.strict():
		return fence.Never
	default:
		return s.presence.deadline
	}
}
