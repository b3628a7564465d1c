package record_test

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/record"
)

// A job says which of its records cannot be read, without what is in it, until that
// is written anew or deleted; whatever comes late.
func TestUnreadable(t *testing.T) {
	key := record.StateKey("j")
	at := func(revision int64, value string) record.Change {
		return record.Change{KV: record.KV{Key: key, Value: []byte(value), CreateRevision: 5, ModRevision: revision}, Deleted: value == ""}
	}
	const good, bad = `{"phase":"running"}`, `{"phase":"running","since":"secret"}`
	for name, c := range map[string]struct {
		changes  []record.Change
		readable bool
	}{
		"good":                        {[]record.Change{at(5, good)}, true},
		"bad":                         {[]record.Change{at(5, bad)}, false},
		"good, then bad":              {[]record.Change{at(5, good), at(6, bad)}, false},
		"bad, then good":              {[]record.Change{at(5, bad), at(6, good)}, true},
		"bad, then gone":              {[]record.Change{at(5, bad), at(6, "")}, true},
		"bad, then an older good one": {[]record.Change{at(6, bad), at(5, good)}, false},
		"of a key that is unknown":    {[]record.Change{{KV: record.KV{Key: key + "/x", Value: []byte("?"), ModRevision: 1}}}, true},
	} {
		m := mirror(t, nil)
		for _, change := range c.changes {
			_, _ = m.Apply(change) // its error is another test's
		}
		why := m.Job("j").Unreadable()
		if (why == "") != c.readable || !c.readable && !strings.Contains(why, key) || strings.Contains(why, "running") {
			t.Errorf("%s: %q", name, why)
		}
		if left := len(m.Jobs) > 0; left != (len(c.changes) > 0 && name != "bad, then gone" && name != "of a key that is unknown") {
			t.Errorf("%s: the job is in the mirror: %t", name, left)
		}
	}
}
