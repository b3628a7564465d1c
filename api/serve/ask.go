package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/record"
)

// An answer of etcd may be lost, and the leader deletes a request when it carries
// it out, so that it is not there does not say whether it ever was. Each request is
// therefore written with the agent's note of the last one, which stays, and only
// if that note is as it was read: of all the times that a request is sent, also
// of one that etcd carries out late, one at most has an effect.

// requests writes what users ask for to etcd, one request at a time.
type requests struct {
	cfg  *Config
	turn chan struct{} // holds one: the request that is being written
}

func newRequests(cfg *Config) *requests { return &requests{cfg, make(chan struct{}, 1)} }

// commit writes a request, and is told whether it has been written before.
func (q *requests) commit(ctx context.Context, requestID string, txn record.Txn) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	select {
	case q.turn <- struct{}{}: // the note is of one request at a time
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return api.Fault(api.Unavailable, "%s: etcd did not answer others within %s, so nothing was accepted: try again", txn.ID, commitTimeout)
	}
	note := record.AskedKey(q.cfg.Node)
	refused := int64(-1) // the note's revision when the transaction was refused
	for ctx.Err() == nil {
		attempt, done := context.WithTimeout(ctx, commitAttempt)
		last, mod, err := q.lastAsked(attempt, note)
		if err != nil {
			<-attempt.Done() // also where that was known early: few attempts are made
			done()
			continue
		}
		if last == requestID || mod == refused {
			done()
			return nil // it has been written before; or what it compares says so
		}
		outcome := q.cfg.KV.Commit(attempt, record.Txn{
			ID:   txn.ID,
			If:   append([]record.Compare{record.Unchanged(note, mod)}, txn.If...),
			Then: append([]record.Op{record.Put(note, record.Asked{Request: requestID})}, txn.Then...),
		})
		if outcome.Result == record.Unknown {
			<-attempt.Done()
		}
		done()
		switch outcome.Result {
		case record.Applied:
			return nil
		case record.Conflict:
			if outcome.Err != nil {
				return api.Fault(api.Unavailable, "%s: etcd refuses to write it, so nothing was accepted: %s", txn.ID, outcome.Err)
			}
			refused = mod
		case record.Unknown:
		}
	}
	return api.Fault(api.Unavailable, "%s: etcd did not answer within %s, so it may or may not be accepted; sending the same request again is safe", txn.ID, commitTimeout)
}

// lastAsked reads the agent's note of its last request, and its revision; 0 = there is none.
func (q *requests) lastAsked(ctx context.Context, key string) (requestID string, mod int64, err error) {
	kvs, _, err := q.cfg.KV.Range(ctx, key)
	if err != nil {
		return "", 0, err
	}
	for _, kv := range kvs {
		if kv.Key != key {
			continue
		}
		var a record.Asked
		if err = json.Unmarshal(kv.Value, &a); err != nil {
			return "", 0, fmt.Errorf("read %s: %w", key, err)
		}
		return a.Request, kv.ModRevision, nil
	}
	return "", 0, nil
}

// ask writes a request for the leader. Its identifier is the caller's, so that one
// who lost the reply can send it again; empty: it gets a new one.
func (q *requests) ask(ctx context.Context, requestID string, r record.Request) error {
	r.At = time.Now().UTC()
	requestID = cmp.Or(requestID, api.NewRequestID())
	key := record.RequestKey(q.cfg.Node, requestID)
	return q.commit(ctx, requestID, record.Txn{
		ID:   string(r.Kind) + " " + string(r.Job) + string(r.Node),
		If:   []record.Compare{record.Absent(key)},
		Then: []record.Op{record.Put(key, r)},
	})
}
