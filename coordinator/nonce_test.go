package coordinator_test

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// No two plans have the same nonce: not those of two jobs that start in one step, and
// not two of one generation that the same leader plans before and after a restore.
func TestNoncesDiffer(t *testing.T) {
	seen := map[string]string{}
	look := func(what string, l *lab) {
		t.Helper()
		for _, job := range []string{"a", "b"} {
			nonce := recorded[record.Plan](l.mem, record.PlanKey(jobID(job), 1)).World.Nonce
			if other, twice := seen[nonce]; nonce == "" || twice {
				t.Errorf("%s, %s: nonce %q is that of %q, too", what, job, nonce, other)
			}
			seen[nonce] = what + ", " + job
		}
	}
	const both = `
		submit a workers=1..1
		submit b workers=1..1
		advance 1m`
	l := newLab()
	play(t, l, `secret x
		want a=1 b=1
		node n1 gpus=2
		think`+both+`
		decide`)
	look("first", l)
	for _, job := range []string{"a", "b"} {
		l.mem.Commit(record.Txn{ID: "restore", Then: []record.Op{
			record.DeletePrefix(record.JobPrefix(jobID(job))), record.Delete(record.GrantKey("n1", jobID(job))),
		}})
	}
	l.reload()
	play(t, l, strings.TrimSpace(both))
	look("restored in the same term", l)
	other := newLab()
	play(t, other, "secret y\nwant a=1 b=1\nnode n1 gpus=2"+both)
	look("another term", other)
}

// What was prepared is used once: when etcd is restored to before the start of a generation, and
// the leader's term outlives that, the generation has another nonce when it is started again.
func TestAPreparedNonceIsUsedOnce(t *testing.T) {
	l := newLab()
	id := jobID("j")
	plan := func() string { return recorded[record.Plan](l.mem, record.PlanKey(id, 2)).World.Nonce }
	play(t, l, `secret x
		want j=1
		node n1 gpus=1
		submit j workers=1..1 start=warm
		started j
		progress j n1 step=5
		advance 10s`)
	state := recorded[record.State](l.mem, record.StateKey(id))
	next := recorded[record.Next](l.mem, record.NextKey("n1", id))
	play(t, l, `failed j n1 rank=0 why=exit_status_1
		stopped j`)
	first := plan()
	if next.Nonce == "" || first != next.Nonce {
		t.Fatalf("the generation has nonce %q, and %q was prepared", first, next.Nonce)
	}
	l.mem.Commit(record.Txn{ID: "restore", Then: []record.Op{
		record.DeletePrefix(record.GenerationPrefix(id, 2)), record.DeletePrefix(record.AckPrefix("n1", id, 1)),
		record.Delete(record.HaltKey(id, 1)), record.Put(record.PermitKey(id, 1), record.Permit{}), record.Put(record.StateKey(id), state),
		record.Put(record.GrantKey("n1", id), record.Grant{Generation: 1, Devices: []cluster.DeviceID{"n1a"}}),
	}})
	l.reload()
	play(t, l, `failed j n1 rank=0 why=exit_status_1
		stopped j`)
	if second := plan(); second == "" || second == first {
		t.Errorf("the generation was started with nonce %q, and again with %q", first, second)
	}
}
