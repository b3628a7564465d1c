package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// tickEvery is how often the agents on a Network look at everything.
const tickEvery = 500 * time.Millisecond

// mostAtOnce is how much may happen on a Network without time passing. Whatever tests
// do stays far below; an agent that takes an action again and again, because it does
// not see that it has, would keep its test for ever.
const mostAtOnce = 100_000

// Network is a clock and an etcd in memory, to which machines are connected: an
// Outside for tests in which the test itself writes what a leader would. A change
// of the records wakes every agent. It has no leases of its own: Memory does.
type Network struct {
	Memory *record.Memory

	now      time.Duration
	serial   int
	due      []appointment
	mirror   *record.Mirror
	watched  int64
	machines []*Machine
}

type appointment struct {
	at     time.Duration
	serial int
	do     func()
}

// NewNetwork returns a Network without machines, at time 0.
func NewNetwork() *Network {
	mirror, err := record.NewMirror(nil, 0)
	if err != nil {
		panic(err) // a mirror of nothing has nothing to refuse
	}
	return &Network{Memory: record.NewMemory(), mirror: mirror}
}

// Connect switches a machine on whose Outside is this network.
func (n *Network) Connect(m *Machine) {
	n.machines = append(n.machines, m)
	m.PowerOn()
}

// Now implements Outside.
func (n *Network) Now() time.Duration { return n.now }

// At implements Outside.
func (n *Network) At(after time.Duration, do func()) {
	n.serial++
	n.due = append(n.due, appointment{n.now + max(0, after), n.serial, do})
}

// Commit implements Outside.
func (n *Network) Commit(t record.Txn) record.Outcome {
	out := n.Memory.Commit(t)
	n.observe()
	return out
}

// Records implements Outside.
func (n *Network) Records() *record.Mirror { return n.mirror }

// Restore puts etcd back to what it was when a backup was made, by Memory.Backup. The
// agents read everything anew.
func (n *Network) Restore(backup *record.Memory) {
	n.Memory.Restore(backup)
	kvs, revision := n.Memory.Range(record.Root)
	mirror, err := record.NewMirror(kvs, revision)
	if err != nil {
		panic(err) // it was well-formed before
	}
	n.mirror, n.watched = mirror, revision
	for _, m := range n.machines {
		m.Wake()
	}
}

func (n *Network) observe() {
	changes, err := n.Memory.Changes(n.watched+1, record.Root)
	if err != nil {
		panic(err) // nothing is compacted here
	}
	n.watched = n.Memory.Revision()
	for _, c := range changes {
		if _, err := n.mirror.Apply(c); err != nil {
			panic(err) // what a test writes is well-formed, or the test is wrong
		}
	}
	if len(changes) > 0 {
		for _, m := range n.machines {
			m.Wake()
		}
	}
}

// Tick has every agent look at everything, and carries out what is due now.
func (n *Network) Tick() {
	n.run(n.now)
	for _, m := range n.machines {
		m.Tick()
	}
	n.run(n.now)
}

// Pass lets time pass, in which each agent looks at everything twice a second.
func (n *Network) Pass(length time.Duration) {
	for until := n.now + length; n.now < until; {
		n.Tick()
		next := min(n.now+tickEvery, until)
		n.run(next)
		n.advance(next)
	}
	n.Tick()
}

// run carries out what is due until then, in its order.
func (n *Network) run(until time.Duration) {
	for at, count := n.now, 0; ; count++ {
		if n.now != at {
			at, count = n.now, 0
		}
		if count > mostAtOnce {
			panic(fmt.Sprintf("machine: at +%v one thing leads to another without end", n.now))
		}
		first := -1
		for i, a := range n.due {
			if a.at <= until && (first < 0 || a.at < n.due[first].at || a.at == n.due[first].at && a.serial < n.due[first].serial) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		next := n.due[first]
		n.due = slices.Delete(n.due, first, first+1)
		n.advance(next.at)
		next.do()
	}
}

func (n *Network) advance(to time.Duration) {
	n.Memory.Advance(to - n.now)
	n.now = to
	n.observe()
}
