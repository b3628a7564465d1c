package coordinator_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// target is the generation that an acknowledgement is about: the newest unless gen=N, and
// the members named, or all. It is of the timeline that is planned, unless nonce=x.
func (l *lab) target(w words) (id cluster.JobID, g cluster.Generation, world cluster.World, nodes []cluster.NodeID) {
	id = jobID(w.arg(0))
	g = cluster.Generation(w.number("gen", int(recorded[record.State](l.mem, record.StateKey(id)).Generation)))
	world = recorded[record.Plan](l.mem, record.PlanKey(id, g)).World
	for _, n := range w.args(1) {
		nodes = append(nodes, cluster.NodeID(n))
	}
	if len(nodes) == 0 {
		for _, m := range world.Members {
			nodes = append(nodes, m.Node)
		}
	}
	return id, g, world, nodes
}

func (l *lab) ack(w words, a record.Ack, value func(cluster.NodeID) any) error {
	id, g, world, nodes := l.target(w)
	for _, n := range nodes {
		key := record.AckKey(n, id, g, a)
		o := l.mem.Commit(acknowledgement(l.mem, key, stamped(value(n), w.text("nonce", world.Nonce))))
		if o.Result != record.Applied {
			return fmt.Errorf("%s was acknowledged before", key)
		}
	}
	return nil
}

// acknowledgement writes a record once, in the place of one of another timeline.
func acknowledgement(mem *record.Memory, key string, value any) record.Txn {
	op, fresh := record.Put(key, value), record.Absent(key)
	var was, is struct {
		Nonce string `json:"nonce"`
	}
	if kv, ok := mem.Get(key); ok {
		if err := errors.Join(json.Unmarshal(kv.Value, &was), json.Unmarshal(op.Value, &is)); err != nil {
			panic(err)
		}
		if was != is {
			fresh = record.Unchanged(key, kv.ModRevision)
		}
	}
	return record.Txn{ID: "ack", If: []record.Compare{fresh}, Then: []record.Op{op}}
}

// stamped says of which generation of its number a node speaks.
func stamped(value any, nonce string) any {
	switch v := value.(type) {
	case record.Started:
		v.Nonce = nonce
		return v
	case record.Held:
		v.Nonce = nonce
		return v
	case record.Failed:
		v.Nonce = nonce
		return v
	case record.Stopped:
		v.Nonce = nonce
		return v
	case record.Cleared:
		v.Nonce = nonce
		return v
	}
	panic(fmt.Sprintf("%T is no acknowledgement", value))
}

// started j [n1 n2] [clock=2h] [warm=yes]: the workers were executed a moment ago, by a clock that is so much ahead.
func (l *lab) started(w words) error {
	return l.ack(w, record.AckStarted, func(cluster.NodeID) any {
		return record.Started{ExecedAt: l.now.Add(w.duration("clock", 0)), Containment: "weak", Unforkable: w.text("unforkable", ""), Warm: w.is("warm", "yes")}
	})
}

// held j [n1 …] begun=7 | [deaf=yes].
func (l *lab) held(w words) error {
	_, sdk := w.value("begun")
	step := int64(w.number("begun", -1))
	return l.ack(w, record.AckHeld, func(cluster.NodeID) any {
		return record.Held{SDK: sdk, Begun: step, Deaf: w.is("deaf", "yes"), At: l.now}
	})
}

// failed j n2 [kind=worker] [rank=1] [why=exit_status_1] [unkillable=7].
func (l *lab) failed(w words) error {
	kind, why := record.FailureKind(w.text("kind", "worker")), "exit status 1"
	if kind == record.NodeFenced {
		why = "it lost touch"
	}
	return l.ack(w, record.AckFailed, func(cluster.NodeID) any {
		failed := record.Failed{
			Kind: kind, Rank: w.number("rank", 0), Reason: w.text("why", why), At: l.now,
		}
		failed.OutOfMemory = w.is("memory", "out")
		if pid := w.number("unkillable", 0); pid > 0 {
			failed.Unkillable = []int{pid}
		}
		return failed
	})
}

// stopped j [n1 …] [finished=yes] [told=2s] [clock=2h] [step=99]: told so long ago,
// gone now, by a clock that is so much ahead; the last that its ranks reported.
func (l *lab) stopped(w words) error {
	return l.ack(w, record.AckStopped, func(cluster.NodeID) any {
		s := record.Stopped{Finished: w.is("finished", "yes"), ExitedAt: l.now.Add(w.duration("clock", 0))}
		if told := w.duration("told", 0); !s.Finished {
			s.SignalledAt = s.ExitedAt.Add(-told)
		}
		if step := int64(w.number("step", -1)); step >= 0 {
			_, g, _, _ := l.target(w)
			s.Progress = &record.JobProgress{Generation: g, Step: step, At: l.now}
		}
		return s
	})
}

// cleared j [n1 …]: what the nodes failed of is over, they say.
func (l *lab) cleared(w words) error {
	return l.ack(w, record.AckCleared, func(cluster.NodeID) any { return record.Cleared{At: l.now} })
}

// ready j n1 [cold=why] [nonce=x]: the node has prepared what it was asked for last.
func (l *lab) ready(w words) error {
	id, n := jobID(w.arg(0)), cluster.NodeID(w.arg(1))
	kv, ok := l.mem.Get(record.NextKey(n, id))
	if !ok {
		return fmt.Errorf("%s was not asked to prepare %s", n, id)
	}
	next := read[record.Next](record.Op{Value: kv.Value})
	said := record.Ready{Generation: next.Generation, Nonce: w.text("nonce", next.Nonce), Cold: w.text("cold", ""), Workers: w.number("workers", next.Workers), At: l.now}
	if was := recorded[record.Ready](l.mem, record.ReadyKey(n, id)); was.For(next) {
		said.Begun, said.AliveRev = was.Begun, was.AliveRev
	}
	l.commit(record.Put(record.ReadyKey(n, id), said))
	return nil
}

// begun j n1 [life=1]: the node prepares what it was asked for last; of whichever life of it.
func (l *lab) begun(w words) error {
	id, n := jobID(w.arg(0)), cluster.NodeID(w.arg(1))
	kv, ok := l.mem.Get(record.NextKey(n, id))
	alive, _ := l.mem.Get(record.AliveKey(n))
	if !ok {
		return fmt.Errorf("%s was not asked to prepare %s", n, id)
	}
	next := read[record.Next](record.Op{Value: kv.Value})
	l.commit(record.Put(record.ReadyKey(n, id), record.Ready{
		Generation: next.Generation, Nonce: next.Nonce, Begun: true, AliveRev: int64(w.number("life", int(alive.CreateRevision))), At: l.now,
	}))
	return nil
}

// unready j n1: nothing of what the node has prepared is left there.
func (l *lab) unready(w words) error {
	key := record.ReadyKey(cluster.NodeID(w.arg(1)), jobID(w.arg(0)))
	if _, there := l.mem.Get(key); !there {
		return fmt.Errorf("%s is not there", key)
	}
	l.commit(record.Delete(key))
	return nil
}

// offer j step=120 [gen=1].
func (l *lab) offer(w words) error {
	id, g, world, _ := l.target(w)
	step := int64(w.number("step", 0))
	l.commit(record.Put(record.OfferKey(world.Members[0].Node, id, g, step), record.Offer{
		At: l.now, Nonce: w.text("nonce", world.Nonce),
		Checkpoint: record.Checkpoint{
			Generation: g, Step: step, Samples: step * 64, WorldSize: w.number("world", world.Processes()), ManifestSHA256: fmt.Sprintf("%d-%d", g, step),
			Dir: fmt.Sprintf("/c/%s/g%08d/step-%012d", id, g, step),
		},
	}))
	return nil
}

// progress j n1 step=99.
func (l *lab) progress(w words) error {
	id, g, world, nodes := l.target(w)
	for _, n := range nodes {
		l.commit(record.Put(record.ProgressKey(n), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{
			id: {Generation: g, Step: int64(w.number("step", 0)), At: l.now, Nonce: w.text("nonce", world.Nonce)},
		}}))
	}
	return nil
}
