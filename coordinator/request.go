package coordinator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// request is one that waits below a node.
type request struct {
	record.Versioned[record.Request]
	id    string
	key   string
	usage usage // shared by the requests of one Step
}

// forbidden says why a request about a job is not its owner's or root's to make, empty if it is.
func forbidden(in situation, r request, verb string) string {
	switch owner := r.Value.Owner; {
	case !in.State.Exists() || !in.Spec.Exists():
		return verb + ": no such job"
	case owner.UID != 0 && owner.UID != in.Spec.Value.Owner.UID:
		return fmt.Sprintf("%s: %s (uid %d) does not own the job", verb, owner.User, owner.UID)
	}
	return ""
}

// repeated reports whether a request was carried out already: its answer was lost, and it was sent again.
func repeated(in situation, r request) bool {
	return r.id != "" && in.Wanted.Value.Request == r.id
}

// drop deletes a request that has nothing to carry out; why is for the log, empty if all is well.
func drop(in situation, r request, why string) *move {
	m := &move{
		verb: "drop", job: in.JobView,
		ifs:  []record.Compare{record.Unchanged(r.key, r.Mod)},
		then: []record.Op{record.Delete(r.key)},
	}
	if why != "" {
		m.note = Note{Warn: true, Job: in.ID, Text: fmt.Sprintf("drop request of uid %d: %s", r.Value.Owner.UID, why)}
	}
	return m
}

// waitingRequests returns what users ask for, in the order in which it was written.
func waitingRequests(m *record.Mirror) []request {
	var all []request
	counted := usage{}
	for _, n := range m.NodeIDs() {
		for id, r := range m.Node(n).Requests {
			all = append(all, request{r, id, record.RequestKey(n, id), counted})
		}
	}
	slices.SortFunc(all, func(a, b request) int { return cmp.Or(cmp.Compare(a.Create, b.Create), cmp.Compare(a.key, b.key)) })
	return all
}

// job is the job that the request is about, none where it is about a node, whatever it names.
func (r request) job() cluster.JobID {
	switch r.Value.Kind {
	case record.DrainRequest, record.UndrainRequest, record.RemoveRequest:
		return ""
	case record.SubmitRequest, record.StopRequest, record.ResumeRequest, record.ScaleRequest:
	}
	return r.Value.Job
}
