package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/checkpoint/owned"
	"github.com/bellows-ml/bellows/internal/userdb"
)

// lookForPlain looks where plain scripts save: now and then while they run, and
// once more when they have ended. Scripts with the SDK say so themselves.
func (sv *saves) lookForPlain() {
	for _, r := range sv.runs.all {
		if r.plain.looking || r.report == nil {
			continue
		}
		if members := r.order.World.Members; len(members) == 0 || members[0].Node != sv.cfg.Node {
			continue
		}
		_, killPending := r.survivors()
		ended := r.report.Stopped != nil || r.shim == agent.Dead && r.sweep.done || killPending
		switch {
		case r.plain.found != nil && r.plain.found.Final:
			continue
		case len(r.report.Saves) > 0 || len(r.report.Workers) == 0:
			if ended {
				r.plain.found = &agent.Plain{Final: true, Step: -1}
			}
			continue
		case !ended && r.shim != agent.Live, (!ended || !r.plain.failing.IsZero()) && time.Since(r.plain.began) < lookEvery:
			continue
		}
		sv.look(r, ended)
	}
}

// cannotLook notes how a look for plain checkpoints has ended, and reports whether
// it is worth another.
func (sv *saves) cannotLook(r *hosted, err error) (again bool) {
	if err == nil {
		r.plain.failing = time.Time{}
		return false
	}
	log := sv.logger(r.jg)
	log.Error().Err(err).Msg("cannot look for plain checkpoints")
	if r.plain.failing.IsZero() {
		r.plain.failing = time.Now()
	}
	if errors.Is(err, owned.ErrForeign) { // shown at once: the script goes on saving in vain
		r.lost.why = fmt.Sprintf("nothing that it saves is kept: %v", err)
	}
	limit := lookAgain
	if errors.Is(err, userdb.ErrNoAnswer) {
		limit = taskBound // as for other saves
	}
	if time.Since(r.plain.failing) < limit {
		return true
	}
	r.lost.why = fmt.Sprintf("what it saved last is not known: %v", err)
	return false
}

func (sv *saves) look(r *hosted, final bool) {
	r.plain.looking, r.plain.began = true, time.Now()
	search := &checkpoint.Search{Dir: filepath.Base(r.order.Checkpoint), Since: -1, Ended: final}
	if r.order.Resume != nil {
		search.Since = r.order.Resume.Step
	}
	in := r.folder()
	sv.wg.Go(func() {
		answer, err := sv.tasks.do(sv.ctx, in, dirblob.Task{Root: in.root(), Find: search}, lookBound)
		sv.post(func() {
			r.plain.looking = false
			found := &agent.Plain{Final: final, Step: -1}
			if p := answer.Plain; p != nil {
				found.Step, found.Samples, found.Whole, found.Dir = p.Step, p.Samples, p.Whole, filepath.Join(in.root(), p.Dir)
			}
			if again := sv.cannotLook(r, err); again && final {
				return
			}
			if r.plain.found == nil || *r.plain.found != *found {
				r.changed = time.Now()
			}
			r.plain.found = found
		})
	})
}
