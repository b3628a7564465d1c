package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/record"
)

// guard has a transaction that changes which devices jobs have write that it does,
// and compare that nothing of the kind that this leader knows of is missing: that a
// device is free is known from the grants of all jobs, and the state record that is
// compared is only that of one. After a restore the record is older than the leader
// knows it; or younger by a leap, if a transaction that was on its way has landed since.
func guard(t record.Txn, v *view) record.Txn {
	if !slices.ContainsFunc(t.Then, grants) {
		return t
	}
	if v.rule(GrantsStand) {
		t.If = append(slices.Clip(t.If), record.Within(record.GrantedKey, v.mirror.Granted.Mod, v.mirror.Revision+leap)...)
	}
	t.Then = append(slices.Clip(t.Then), record.Put(record.GrantedKey, record.Granted{By: t.ID}))
	return t
}

// grants reports whether an operation changes which devices a job has: a plan holds
// them even before they are granted.
func grants(op record.Op) bool {
	kind := record.Locate(op.Key).Kind
	return kind == record.KindGrant || kind == record.KindPlan && !op.Delete
}
