package serve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// What a user may have is said by the agent at once, with the limit, the value and
// the remedy, and not written; the same request sent again is the same job.
func TestLimitsOfAUser(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	a := serve(t, store, "n1", nil)
	who := self() // whose jobs it can run
	if who.UID == 0 {
		who = stranger
	}
	store.put(t, record.Put(record.LimitsKey, record.Limits{LiveJobs: 2, Submits: 100, Bytes: 1 << 20, Connections: 50, Priority: 10}))
	submit := func(name string, priority int, args ...string) (api.SubmitRequest, error) {
		spec := goodSpec(name)
		spec.Priority, spec.Command = priority, append(spec.Command, args...)
		req := api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec}
		_, err := a.server.submissions.submit(t.Context(), req, who)
		return req, err
	}
	refused := func(err error, want string) {
		t.Helper()
		if api.CodeOf(err) != api.Limited || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
	eventually(t, "the limits are known", func() bool { return a.server.view.allowed().LiveJobs == 2 })
	_, err := submit("a", 11)
	refused(err, "priority 11: users may take 10 at most here (--user-priority")
	first, err := submit("a", 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = submit("b", 0); err != nil {
		t.Fatal(err)
	}
	_, err = submit("c", 0)
	refused(err, "2 jobs of this user have not ended, and a user may have 2 here")
	if _, err = a.server.submissions.submit(t.Context(), first, who); err != nil {
		t.Errorf("the same request again: %v", err)
	}
	store.put(t, record.Put(record.LimitsKey, record.Limits{LiveJobs: 9, Submits: 2, Bytes: 1 << 20}))
	eventually(t, "the rate is the limit", func() bool {
		_, err = submit("c", 0)
		return strings.Contains(fmt.Sprint(err), "within a minute counts 2")
	})
	refused(err, "try again in ")
	store.put(t, record.Put(record.LimitsKey, record.Limits{LiveJobs: 9, Submits: 100, Bytes: 20_000}))
	eventually(t, "the bytes are the limit", func() bool {
		_, err = submit("c", 0, strings.Repeat("x", 30_000))
		return strings.Contains(fmt.Sprint(err), "bytes")
	})
	refused(err, "and a user may have 20000 here (--user-bytes")
	store.put(t, record.Put(record.LimitsKey, record.Limits{Exempt: []uint32{who.UID}}))
	eventually(t, "an exempt user is bound by none", func() bool { _, err = submit("c", 100); return err == nil })
	if n := len(store.requests(t, "n1")); n != 3 {
		t.Errorf("%d requests were written", n)
	}
}

// The last part of etcd's quota is not for submissions; everything else goes on.
func TestTheReserveOfEtcdIsNotSubmittedInto(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	a := serve(t, store, "n1", nil)
	store.fill(record.Space{Used: 91, Quota: 100})
	_, err := a.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("a")})
	if api.CodeOf(err) != api.Limited || !strings.Contains(err.Error(), "etcd has 91 of its 100 bytes in use") {
		t.Errorf("got %v", err)
	}
	store.admit(t, "train-aaaaaa", self(), record.State{Phase: cluster.Running})
	eventually(t, "the job is known", func() bool { _, err = a.Job(t.Context(), "train"); return err == nil })
	if _, err = a.Stop(t.Context(), "train", api.StopRequest{Now: true}); err != nil {
		t.Errorf("stop: %v", err)
	}
	for _, unknown := range []record.Space{{Used: 90, Quota: 100}, {Used: 1 << 40}} {
		store.fill(unknown)
		eventually(t, "it is asked again", func() bool {
			_, err = a.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec(strings.ToLower(api.NewRequestID()))})
			return err == nil
		})
	}
}
