package coordinator

import (
	"github.com/bellows-ml/bellows/record"
)

// load brings the mirror up to a listing. What it knows of later revisions
// stays: our own writes may be newer than the listing, and without them devices
// just granted would look free. The waits for lost nodes go on: see watchNodes.
func (c *Coordinator) load(e Loaded) {
	if c.mirror == nil {
		mirror, err := record.NewMirror(nil, 0)
		if err != nil {
			panic("coordinator: an empty listing does not decode: " + err.Error())
		}
		c.mirror = mirror
	}
	present := make(map[string]bool, len(e.KVs))
	for _, kv := range e.KVs {
		present[kv.Key] = true
		if c.known.Revision(kv.Key) < kv.ModRevision {
			c.apply(record.Change{KV: kv})
		}
	}
	for _, key := range c.known.Until(e.Revision) {
		if !present[key] {
			c.apply(record.Change{KV: record.KV{Key: key, ModRevision: e.Revision}, Deleted: true})
		}
	}
	c.mirror.Revision = max(c.mirror.Revision, e.Revision)
	c.listed = max(c.listed, e.Revision)
	c.reloaded()
}

// change takes in what a watch has seen, but for what a listing has told already.
func (c *Coordinator) change(e Changed) {
	if c.mirror == nil {
		return
	}
	for _, ch := range e.Changes {
		if ch.ModRevision <= c.listed {
			continue
		}
		c.apply(ch)
	}
}

// apply takes one change in. A record that this version cannot read is reported once and left alone.
func (c *Coordinator) apply(ch record.Change) {
	at, err := c.mirror.Apply(ch)
	if err != nil {
		c.note(Note{Warn: true, Text: err.Error()})
	}
	c.forgetPicture(at)
	c.known.Take(ch)
}
