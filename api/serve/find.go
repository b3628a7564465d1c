package serve

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// jobs lists the wanted jobs, admitted or waiting to be, by the time of their submission.
func jobs(m *record.Mirror, who cluster.Owner, wanted func(id cluster.JobID, name string, ended bool) bool) []api.JobStatus {
	var list []api.JobStatus
	var about map[cluster.JobID][]cluster.NodeID
	for _, id := range m.JobIDs() {
		v := m.Job(id)
		recorded := v.Spec.Exists() && v.State.Exists() || v.Unreadable() != ""
		if !recorded || !wanted(id, v.Spec.Value.Name, v.State.Value.Phase.Terminal()) {
			continue
		}
		if about == nil {
			about = speakers(m)
		}
		list = append(list, jobStatus(m, v, who, about[id]))
	}
	addPlaces(m, list)
	for _, r := range waiting(m) {
		if wanted(r.Job, r.Spec.Name, false) {
			list = append(list, pendingStatus(m, r, who))
		}
	}
	slices.SortFunc(list, func(a, b api.JobStatus) int {
		return cmp.Or(a.SubmittedAt.Compare(b.SubmittedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// speakers returns the nodes with reports about each job, in their order. There may
// be thousands of both, so a listing must not try every pair.
func speakers(m *record.Mirror) map[cluster.JobID][]cluster.NodeID {
	about := map[cluster.JobID][]cluster.NodeID{}
	for _, id := range m.NodeIDs() {
		v := m.Node(id)
		add := func(job cluster.JobID) {
			if n := about[job]; len(n) == 0 || n[len(n)-1] != id {
				about[job] = append(n, id)
			}
		}
		for job := range v.Progress.Value.Jobs {
			add(job)
		}
		for job := range v.Progress.Value.Problems {
			add(job)
		}
		for jg := range v.Acks {
			add(jg.Job)
		}
	}
	return about
}

// addPlaces adds the places in the queue, counted from 1, of those jobs that
// stand in it. They are nowhere written down: with each job that leaves they change.
func addPlaces(m *record.Mirror, list []api.JobStatus) {
	if !slices.ContainsFunc(list, func(s api.JobStatus) bool { return s.Phase == cluster.Queued }) {
		return
	}
	place := map[string]int{}
	for i, id := range m.Queue() {
		place[string(id)] = i + 1
	}
	for i := range list {
		list[i].QueuePosition = place[list[i].ID]
	}
}

// waiting lists the submissions that no leader has carried out yet.
func waiting(m *record.Mirror) []record.Request {
	var list []record.Request
	for _, node := range m.NodeIDs() {
		requests := m.Node(node).Requests
		for _, id := range slices.Sorted(maps.Keys(requests)) {
			r := requests[id].Value
			if r.Kind == record.SubmitRequest && r.Spec != nil && !m.Job(r.Job).Spec.Exists() {
				list = append(list, r)
			}
		}
	}
	return list
}

// findJob finds a job by its identifier, or by its name: the live job of that
// name if there is one, else the one submitted last.
func findJob(m *record.Mirror, ref string, who cluster.Owner) (api.JobStatus, bool) {
	if v := m.Job(cluster.JobID(ref)); v.Spec.Exists() && v.State.Exists() || v.Unreadable() != "" {
		list := []api.JobStatus{jobStatus(m, v, who, m.NodeIDs())}
		addPlaces(m, list)
		return list[0], true
	}
	var best api.JobStatus
	for _, j := range jobs(m, who, func(id cluster.JobID, name string, _ bool) bool { return string(id) == ref || name == ref }) {
		if j.ID == ref {
			return j, true
		}
		if best.ID == "" || best.Ended || !j.Ended {
			best = j
		}
	}
	return best, best.ID != ""
}

// nameUser returns the live job that has the name, other than the job given.
func nameUser(m *record.Mirror, name string, other cluster.JobID) (cluster.JobID, bool) {
	for _, id := range m.JobIDs() {
		v := m.Job(id)
		if id != other && v.Spec.Exists() && v.Spec.Value.Name == name && !v.State.Value.Phase.Terminal() {
			return id, true
		}
	}
	for _, r := range waiting(m) {
		if r.Job != other && r.Spec.Name == name && r.Kind == record.SubmitRequest {
			return r.Job, true
		}
	}
	return "", false
}

// ownerOf says whose a job is, admitted or not.
func ownerOf(m *record.Mirror, id cluster.JobID) (cluster.Owner, bool) {
	if spec := m.Job(id).Spec; spec.Exists() {
		return spec.Value.Owner, true
	}
	for _, r := range waiting(m) {
		if r.Job == id {
			return r.Owner, true
		}
	}
	return cluster.Owner{}, false
}
