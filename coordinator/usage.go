package coordinator

import "github.com/bellows-ml/bellows/record"

// usage is what each user has, with what is just being admitted; counted once for
// the requests of one Step.
type usage map[uint32]*record.Usage

// of returns what a user has.
func (u usage) of(in situation, uid uint32) *record.Usage {
	if len(u) == 0 {
		for _, j := range in.jobs() {
			u.user(j.owner).CountJob(j.JobView)
		}
		for _, n := range in.mirror.NodeIDs() {
			for _, r := range in.node(n).Requests {
				if r.Value.Kind == record.SubmitRequest && in.admitting(r.Value.Job) {
					u.user(r.Value.Owner.UID).CountRequest(r)
				}
			}
		}
	}
	return u.user(uid)
}

func (u usage) user(uid uint32) *record.Usage {
	if u[uid] == nil {
		u[uid] = &record.Usage{}
	}
	return u[uid]
}
