// Package agent decides what one node does next: Plan compares what the
// cluster's records ask of the node with what is really there, and answers with
// the actions that close the gap.
//
// It promises to be level-triggered and idempotent. An action that was lost in
// a crash is planned again from the same facts; one that was carried out twice
// has done no harm. So an agent may die between any two actions, and its
// successor needs nothing but the records and the run directories.
//
// What it keeps, whatever the order of events: workers start only under a
// permit, in a plan made for this life of the node, and never beside an older
// generation of their job; an acknowledgement is written once, in the order of
// record.Ack; and nothing is acknowledged as stopped while a process of it may
// live or a save of it is still on its way. That no run is known of says nothing
// about processes: these are looked for first.
package agent
