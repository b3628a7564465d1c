// Package devices knows the devices of a node, and what the node has to give: which devices there are and how they do, who is
// on them, which files they have, whose locks are still held, and the interface that workers meet on.
//
// All looks run beside the loop, which owns everything here; only Shown may be called from any goroutine. A look that fails
// says nothing about the devices: those known stay as they are, and what runs on them runs on.
//
//	ds := devices.New(loop, devices.Config{…}, runs)
//	ds.Look()                                      // every second or so
//	inventory, known := ds.Inventory(recorded, unscanned)
//	refused := ds.Occupied(member.Devices)         // before a start
//
// ADR 28 says what a foreign process on a device keeps away.
package devices
