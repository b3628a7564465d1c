package record

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

var errUnknownKey = errors.New("unknown key: written by another version, or by hand")

// noteUnreadable keeps in mind which records of the job are not as its view shows
// them, which has what was there before, or nothing.
func (v *JobView) noteUnreadable(c Change, err error) {
	switch was, known := v.unreadable[c.Key]; {
	case known && c.ModRevision < was.mod, errors.Is(err, errUnknownKey):
	case err != nil:
		if v.unreadable == nil {
			v.unreadable = map[string]unreadable{}
		}
		if cause := errors.Unwrap(err); cause != nil { // without the value, which is not for everyone
			err = cause
		}
		v.unreadable[c.Key] = unreadable{why: err.Error(), mod: c.ModRevision}
	case known:
		delete(v.unreadable, c.Key)
	}
}

// Unreadable says which record of the job cannot be read, the first of them, and
// what helps; "" if all can. Nothing may be decided by the others then: what is
// known of the job may be long over.
func (v *JobView) Unreadable() string {
	if len(v.unreadable) == 0 {
		return ""
	}
	key := slices.Sorted(maps.Keys(v.unreadable))[0]
	return fmt.Sprintf("record %s cannot be read: %s: nothing is done about the job until it is mended or removed, as by etcdctl", key, v.unreadable[key].why)
}
