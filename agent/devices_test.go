package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// inventory is made of words: "a" is a healthy device, "b!hot" one with that problem, "?no_driver" the node's own.
func inventory(text string) record.Inventory {
	var inv record.Inventory
	for word := range strings.FieldsSeq(text) {
		if problem, ok := strings.CutPrefix(word, "?"); ok {
			inv.Problem = problem
			continue
		}
		id, problem, sick := strings.Cut(word, "!")
		d := cluster.Device{ID: cluster.DeviceID(id), Health: cluster.Healthy}
		if sick {
			d.Health, d.Problem = cluster.Unhealthy, problem
		}
		inv.Devices = append(inv.Devices, d)
	}
	return inv
}

func TestDeviceNews(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"", "a b", ""},
		{"a b", "a b", ""},
		{"", "a b!hot", "device-problem b [b: hot]"},
		{"a b", "a b!hot", "device-problem b [b: hot]"},
		{"a b!hot", "a b!hotter", ""}, // it was told
		{"a b!hot", "a b", "device-well b [b: is fit again]"},
		{"a b", "a", "device-problem b [b: is gone]"},
		{"a", "a b", "device-well b [b: is there]"},
		{"a b", "a!hot b!", "device-problem  [a: hot; b: unfit]"},
		{"a!hot b", "a b!hot", "device-problem b [b: hot] device-well a [a: is fit again]"},
		{"", "?no_driver", "device-problem  [no_driver]"},
		{"?no_driver", "?no_driver", ""},
		{"a ?no_driver", "a", "device-well  [all devices are seen again]"},
	} {
		var got []string
		for _, e := range agent.DeviceNews(inventory(c.before), inventory(c.after)) {
			got = append(got, fmt.Sprintf("%s %s [%s]", e.Kind, e.Device, e.Why))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("from %q to %q: %q, want %q", c.before, c.after, text, c.want)
		}
	}
}
