package coordinator_test

import (
	"strings"
	"testing"

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
