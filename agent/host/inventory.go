package host

import (
	"reflect"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/record"
)

const inventoryLane agent.Lane = "inventory"

// inventory keeps the inventory record: what the node has to give. The loop owns it.
type inventory struct {
	*shared
	session  *session
	adoption *adoption // tells whether it is known which runs are here
	devices  *devices.Devices
	writer   *writer
}

// write records what the node has to give, where that has changed.
func (iv *inventory) write() {
	at := loop.Lane{What: inventoryLane}
	if !iv.session.joined() || iv.Busy(at) {
		return
	}
	recorded := iv.records.self().Inventory
	has, known := iv.devices.Inventory(recorded.Value, iv.adoption.unscanned != nil)
	if !known || recorded.Exists() && reflect.DeepEqual(recorded.Value, has) {
		return
	}
	ops := []record.Op{record.Put(record.InventoryKey(iv.cfg.Node), has)}
	for _, e := range agent.DeviceNews(recorded.Value, has) {
		ops = append(ops, iv.writer.tell(e))
	}
	iv.writer.replace(at, "inventory", ops...)
}
