package membership

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/memberlist"

	"github.com/bellows-ml/bellows/cluster"
)

// roster is memberlist's delegate: it keeps our own copy of the members, since
// memberlist goes on writing to the nodes it hands out, and turns its calls
// into events. The copy is written before the event is queued, so that a
// reader of an event finds Members at least that new.
//
// memberlist calls it while holding its own lock; nothing here calls back.
type roster struct {
	self  cluster.NodeID
	queue *queue

	mu      sync.Mutex
	local   []byte // our encoded metadata
	members map[cluster.NodeID]entry
	taken   string // live address seen to own our name, for Join to report
}

type entry struct {
	Member
	leaving bool
}

func newRoster(self cluster.NodeID, local []byte, q *queue) *roster {
	return &roster{self: self, queue: q, local: local, members: map[cluster.NodeID]entry{}}
}

// list returns the members sorted by node, the node itself included.
func (r *roster) list() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	members := make([]Member, 0, len(r.members))
	for _, id := range slices.Sorted(maps.Keys(r.members)) {
		members = append(members, r.members[id].Member)
	}
	return members
}

// setLocal replaces the node's own metadata and reports whether it changed.
func (r *roster) setLocal(b []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(r.local, b) {
		return false
	}
	r.local = b
	return true
}

// takeTaken returns and forgets the address that was seen to own our name.
func (r *roster) takeTaken() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	addr := r.taken
	r.taken = ""
	return addr
}

// NotifyAlive refuses nodes whose name or metadata is invalid.
func (r *roster) NotifyAlive(n *memberlist.Node) error {
	if err := cluster.CheckName(n.Name); err != nil {
		return err
	}
	_, err := decodeMeta(n.Meta)
	return err
}

// NotifyMerge refuses to join a cluster in which our name belongs to another
// node. Without it, the join would look like a success to us and be ignored by
// everybody else.
func (r *roster) NotifyMerge(peers []*memberlist.Node) error {
	self, other := r.member(r.self), ""
	for _, p := range peers {
		live := p.State == memberlist.StateAlive || p.State == memberlist.StateSuspect
		if live && p.Name == string(r.self) && p.Address() != self.Addr {
			other = p.Address()
		}
	}
	if other == "" {
		return nil
	}
	r.mu.Lock()
	r.taken = other
	r.mu.Unlock()
	r.queue.push(Event{Kind: Conflict, Member: self, Other: other})
	return fmt.Errorf("%s is also the name of %s", r.self, other)
}

// NotifyConflict is called for a live node whose name is claimed elsewhere.
func (r *roster) NotifyConflict(existing, other *memberlist.Node) {
	r.queue.push(Event{
		Kind:   Conflict,
		Member: r.member(cluster.NodeID(existing.Name)),
		Other:  other.Address(),
	})
}

// NotifyJoin is called for a node that is new, or back.
func (r *roster) NotifyJoin(n *memberlist.Node) { r.put(n, Joined) }

// NotifyUpdate is called when a node's metadata has changed.
func (r *roster) NotifyUpdate(n *memberlist.Node) { r.put(n, Updated) }

func (r *roster) put(n *memberlist.Node, kind Kind) {
	meta, err := decodeMeta(n.Meta)
	if err != nil {
		panic(fmt.Sprintf("node %s passed NotifyAlive with metadata %q", n.Name, n.Meta))
	}
	e := entry{
		Member:  Member{Node: cluster.NodeID(strings.Clone(n.Name)), Addr: n.Address(), Meta: meta.meta()},
		leaving: meta.Leaving,
	}
	r.mu.Lock()
	old, known := r.members[e.Node]
	r.members[e.Node] = e
	r.mu.Unlock()
	// Word that a member is about to go changes nothing that Member shows.
	if e.Node == r.self || known && old.Member == e.Member {
		return
	}
	r.queue.push(Event{Kind: kind, Member: e.Member})
}

// NotifyLeave is called for a node that left or failed. memberlist does not
// say which (its State is still "alive" here): a node that leaves has said so
// in its metadata before.
func (r *roster) NotifyLeave(n *memberlist.Node) {
	id := cluster.NodeID(n.Name)
	r.mu.Lock()
	e, ok := r.members[id]
	delete(r.members, id)
	r.mu.Unlock()
	if !ok || id == r.self {
		return
	}
	kind := Failed
	if e.leaving {
		kind = Left
	}
	r.queue.push(Event{Kind: kind, Member: e.Member})
}

func (r *roster) member(id cluster.NodeID) Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members[id].Member
}

// NodeMeta returns what the node tells about itself. The limit is
// MaxMetaBytes, which encode has held it to.
func (r *roster) NodeMeta(limit int) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.local) > limit {
		panic(fmt.Sprintf("metadata has %d bytes, memberlist takes %d", len(r.local), limit))
	}
	return r.local
}

// NotifyMsg, GetBroadcasts, LocalState and MergeRemoteState are the rest of
// memberlist's Delegate: Bellows sends no messages of its own by gossip.
func (r *roster) NotifyMsg([]byte) {}

// GetBroadcasts has nothing to send.
func (r *roster) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState has nothing to add to memberlist's own.
func (r *roster) LocalState(bool) []byte { return nil }

// MergeRemoteState gets nothing.
func (r *roster) MergeRemoteState([]byte, bool) {}
