package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/host/saves"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/record"
)

const (
	// probeSeldom is how often it looks for jobs that run elsewhere by now.
	probeSeldom = time.Minute
	// probeBound is how long one look may take: a file system that hangs is not well.
	probeBound = 10 * time.Second
	// probeRest is what a look leaves the node in peace for, however many jobs wait.
	probeRest = 50 * time.Millisecond

	probeLane agent.Lane = "probe"
)

// probes looks whether what this node failed of is over. The loop owns it.
type probes struct {
	*shared
	session *session
	tasks   *saves.Tasks
	writer  *writer

	due map[record.JobGen]time.Time // when to look next
}

func newProbes(sh *shared, s *session, ts *saves.Tasks, w *writer) *probes {
	return &probes{shared: sh, session: s, tasks: ts, writer: w, due: map[record.JobGen]time.Time{}}
}

// next looks, one job at a time, whether what this node failed of and may
// pass is over: a full disk, a file system that is read-only or fails, a working
// directory, program, env file or user that was missing. It says so once a
// generation, and the leader need not wait any longer.
func (ps *probes) next() {
	at := loop.Lane{What: probeLane}
	if ps.Busy(at) || !ps.session.joined() {
		return
	}
	maps.DeleteFunc(ps.due, func(jg record.JobGen, _ time.Time) bool { return !ps.awaits(jg) })
	for _, jg := range slices.SortedFunc(maps.Keys(ps.records.self().Acks), agent.Compare) {
		if _, known := ps.due[jg]; !known && ps.awaits(jg) {
			ps.due[jg] = time.Time{}
		}
	}
	due := record.JobGen{}
	for jg, next := range ps.due {
		if due.Job == "" || next.Before(ps.due[due]) || next.Equal(ps.due[due]) && agent.Compare(jg, due) < 0 {
			due = jg
		}
	}
	if due.Job == "" || time.Now().Before(ps.due[due]) {
		return
	}
	ps.Beside(at, func(ctx context.Context) func() {
		again, err := ps.probe(ctx, due)
		loop.Rest(ctx, probeRest)
		return func() {
			if ps.due[due] = time.Now().Add(again); err != nil || again > 0 {
				return
			}
			key := record.AckKey(ps.cfg.Node, due.Job, due.Generation, record.AckCleared)
			ps.writer.create(loop.Lane{Of: due, What: agent.AckLane}, "ack cleared "+string(due.Job), []record.Op{record.Put(key, record.Cleared{At: time.Now(), Nonce: ps.records.acks(due).Failed.Value.Nonce})}, nil)
		}
	})
}

// awaits reports whether this node has failed in a generation of something that
// may pass, and has not said that it is over. Only the job's newest generation here counts.
func (ps *probes) awaits(jg record.JobGen) bool {
	acks := ps.records.acks(jg)
	if !acks.Failed.Exists() || !mayPass(acks.Failed.Value) || !acks.Stopped.Exists() || acks.Cleared.Exists() || ps.Busy(loop.Lane{Of: jg, What: agent.AckLane}) {
		return false
	}
	for other := range ps.records.self().Acks {
		if other.Job == jg.Job && other.Generation > jg.Generation {
			return false
		}
	}
	return true
}

// mayPass reports whether a probe can tell that what a node failed of is over.
func mayPass(f record.Failed) bool {
	return f.Kind.MayPass() || f.Kind == record.NodeRefused && f.Missing
}

// probe looks once; again is when to look next, 0 if it is over.
func (ps *probes) probe(ctx context.Context, jg record.JobGen) (again time.Duration, _ error) {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	var state record.State
	var spec record.Submitted
	var last record.Checkpoint
	for key, v := range map[string]any{record.StateKey(jg.Job): &state, record.SpecKey(jg.Job): &spec, record.CommittedKey(jg.Job): &last} {
		kv, exists, err := ps.store.Get(ctx, key)
		if err == nil && exists {
			err = json.Unmarshal(kv.Value, v)
		}
		if err != nil {
			return ps.cfg.probeEvery, err
		}
	}
	again = ps.cfg.probeEvery
	if state.Generation != jg.Generation || state.Phase.Terminal() || spec.ID == "" {
		again = probeSeldom
	}
	if spec.ID == "" {
		return again, nil
	}
	in := saves.Folder{Of: jg, Owner: spec.Owner, Path: layout.Probe(spec.CheckpointDir, jg.Job)}
	order := run.Order{
		Spec:  spec.Spec,
		Owner: spec.Owner, Checkpoint: in.Path,
	}
	answer, err := ps.tasks.Do(ctx, in, dirblob.Task{Root: in.Root(), Probe: string(ps.cfg.Node)}, probeBound)
	if err == nil && answer.Room != nil && answer.Room.Shortage(in.Root(), last.Bytes) != "" {
		return again, nil
	}
	runner, done := ps.tasks.Runner(jg.Job, "needs")
	defer done()
	if err = errors.Join(err, tryWriting(ps.cfg.RunDir), precheck.Needs(ctx, order, runner)); err != nil {
		log := ps.Logger(jg)
		log.Debug().Err(err).Msg("what it failed of is not over yet")
		return again, nil
	}
	return 0, nil
}

// tryWriting reports whether the agent's own disk takes what a start needs.
func tryWriting(dir string) error {
	const aStart = 256 << 10 // an order, its reports, and the module
	f, err := os.OpenFile(filepath.Join(dir, ".probe"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("try to write to %s: %w", dir, err)
	}
	_, err = f.Write(make([]byte, aStart))
	if err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("try to write to %s: %w", dir, err)
	}
	return nil
}
