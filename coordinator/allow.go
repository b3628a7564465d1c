package coordinator

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// publishLimits records the limits that this leader keeps users to.
func publishLimits(in situation) *move {
	l, known := in.cfg.Limits, in.mirror.Limits
	if l == nil || known.Exists() && known.Value.Equal(*l) || in.clusterBusy() {
		return nil
	}
	return &move{verb: "limits", then: []record.Op{record.Put(record.LimitsKey, *l)}}
}

// overLimit says why a user may not have the job that a request asks for; empty if
// it may. Agents have asked the same, but each for itself. See ADR 40.
func overLimit(in situation, r request, spec cluster.Spec) string {
	uid := r.Value.Owner.UID
	if in.cfg.Limits == nil || in.cfg.Limits.Exempts(uid) {
		return ""
	}
	u := r.usage.of(in, uid)
	why := in.cfg.Limits.Refuses(record.Submission{UID: uid, Spec: spec, Bytes: r.Size, At: r.Value.At}, u)
	if why == "" {
		u.CountRequest(r.Versioned)
	}
	return why
}
