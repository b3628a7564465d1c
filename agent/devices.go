package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// DeviceNews tells what has become of a node's devices between two inventories:
// at most one event of what has become unfit or is missing, and one of what is
// fit again. before is zero where the node had no inventory yet: what is sound
// then is no news. The events have no number, time or node yet.
func DeviceNews(before, after record.Inventory) []record.Event {
	was := map[cluster.DeviceID]cluster.Device{}
	for _, d := range before.Devices {
		was[d.ID] = d
	}
	bad, good := news{kind: record.DeviceProblem}, news{kind: record.DeviceWell}
	if after.Problem != before.Problem {
		if after.Problem != "" {
			bad.parts = append(bad.parts, after.Problem)
		} else {
			good.parts = append(good.parts, "all devices are seen again")
		}
	}
	for _, d := range after.Devices {
		old, there := was[d.ID]
		fit, wasFit := d.Health == cluster.Healthy, old.Health == cluster.Healthy
		switch {
		case !fit && (!there || wasFit):
			bad.device(d.ID, cmp.Or(d.Problem, "unfit"))
		case fit && !there && len(before.Devices) > 0:
			good.device(d.ID, "is there")
		case fit && there && !wasFit:
			good.device(d.ID, "is fit again")
		}
	}
	for _, d := range before.Devices {
		if !slices.ContainsFunc(after.Devices, func(x cluster.Device) bool { return x.ID == d.ID }) {
			bad.device(d.ID, "is gone")
		}
	}
	return slices.DeleteFunc([]record.Event{bad.event(), good.event()}, func(e record.Event) bool { return e.Kind == "" })
}

// news is what makes one event.
type news struct {
	kind    record.EventKind
	devices []cluster.DeviceID
	parts   []string
}

func (n *news) device(id cluster.DeviceID, what string) {
	n.devices = append(n.devices, id)
	n.parts = append(n.parts, fmt.Sprintf("%s: %s", id, what))
}

// event is zero if there is nothing to tell.
func (n *news) event() record.Event {
	if len(n.parts) == 0 {
		return record.Event{}
	}
	e := record.Event{Kind: n.kind, Why: reason.Said(strings.Join(n.parts, "; "))}
	if len(n.devices) == 1 {
		e.Device = n.devices[0]
	}
	return e
}
