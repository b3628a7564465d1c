package membership

import (
	"fmt"
	"sync"

	"github.com/bellows-ml/bellows/cluster"
)

// Kind says what an Event tells.
type Kind uint8

// The kinds of events.
const (
	Joined   Kind = iota + 1 // a node is there that was not
	Updated                  // a member's metadata changed
	Left                     // a member said that it goes, and went
	Failed                   // a member fell silent: dead, frozen or cut off
	Conflict                 // another address claims a member's name; comes again while it does
	Missed                   // events were dropped here because the queue was full: read Members
)

// String returns the kind in lower case, for logs.
func (k Kind) String() string {
	switch k {
	case Joined:
		return "joined"
	case Updated:
		return "updated"
	case Left:
		return "left"
	case Failed:
		return "failed"
	case Conflict:
		return "conflict"
	case Missed:
		return "missed"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Member is one node as it was last heard of.
type Member struct {
	Node cluster.NodeID
	Addr string // of its gossip, as ip:port
	Meta Meta
}

// Event is one change of the membership. Except for Conflict, events are never
// about the node itself.
type Event struct {
	Kind   Kind
	Member Member // zero for Missed
	// Other is the address that claims Member's name, for Conflict. When Member
	// is the node itself, one of the two has to go.
	Other string
}

// queueLen bounds the events that wait for the reader. A cluster of 200 nodes
// that all change at once fits; a reader that is further behind than that is
// better off with Members.
const queueLen = 256

// queue hands events to one reader without ever making the writer wait. Its
// last place is kept for Missed: when only that is left, Missed takes it, and
// whatever comes after is dropped until the reader has made room. So a reader
// that reads on always learns that, and after what, it missed something.
type queue struct {
	mu     sync.Mutex // held by writers, which therefore see the room only grow
	ch     chan Event
	closed bool
}

func newQueue(size int) *queue { return &queue{ch: make(chan Event, size)} }

func (q *queue) push(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	switch cap(q.ch) - len(q.ch) {
	case 0: // Missed is in there already
	case 1:
		q.ch <- Event{Kind: Missed}
	default:
		q.ch <- e
	}
}

// close ends the stream for the reader, once it has read what is queued.
// Later events go nowhere.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.ch)
	}
}
