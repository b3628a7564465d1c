package membership

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/memberlist"
)

// MaxMetaBytes is the room for a node's metadata, encoded: it travels in
// single packets, so what is larger belongs in etcd.
const MaxMetaBytes = memberlist.MetaMaxSize

// Meta is what a node tells about itself in every gossip message.
type Meta struct {
	Incarnation string // of the agent process; changes with each start
	API         string // address of the agent's HTTP API
	EtcdOK      bool   // whether the agent reached etcd in the last 3 s
}

// wireMeta is Meta as it travels. Unknown fields are ignored and missing ones
// are zero, so that versions can differ across a cluster during an upgrade.
type wireMeta struct {
	Incarnation string `json:"i,omitempty"`
	API         string `json:"a,omitempty"`
	EtcdOK      bool   `json:"e,omitempty"`
	// Leaving is set just before a graceful leave: memberlist tells a departure
	// from a failure only to itself.
	Leaving bool `json:"l,omitempty"`
}

func (m wireMeta) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	limit := MaxMetaBytes
	if !m.Leaving {
		limit -= len(`,"l":true`) // a node that can join can also announce its leave
	}
	if len(b) > limit {
		return nil, fmt.Errorf("metadata takes %d bytes, the limit is %d: shorten the API address (%d bytes) or the incarnation (%d)",
			len(b), limit, len(m.API), len(m.Incarnation))
	}
	return b, nil
}

func decodeMeta(b []byte) (wireMeta, error) {
	var m wireMeta
	if err := json.Unmarshal(b, &m); err != nil {
		return wireMeta{}, fmt.Errorf("decode metadata %.40q: %w", b, err)
	}
	return m, nil
}

func (m Meta) wire() wireMeta {
	return wireMeta{Incarnation: m.Incarnation, API: m.API, EtcdOK: m.EtcdOK}
}

func (m wireMeta) meta() Meta {
	return Meta{Incarnation: m.Incarnation, API: m.API, EtcdOK: m.EtcdOK}
}
