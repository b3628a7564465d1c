package coordinator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

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

// carryOut answers a request about a job or a node. It is deleted by the
// transaction that carries it out.
func carryOut(in situation, r request) *move {
	switch r.Value.Kind {
	case record.SubmitRequest:
		return admitJob(in, r)
	case record.StopRequest:
		return stop(in, r)
	case record.ResumeRequest:
		return resume(in, r)
	case record.ScaleRequest:
		return scale(in, r)
	case record.DrainRequest:
		return drain(in, r)
	case record.UndrainRequest:
		return undrain(in, r)
	case record.RemoveRequest:
		return removeNode(in, r)
	}
	return drop(in, r, fmt.Sprintf("unknown kind %q", r.Value.Kind))
}
