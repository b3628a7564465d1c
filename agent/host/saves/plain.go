package saves

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
	"github.com/bellows-ml/bellows/record"
)

// lookForPlain looks where plain scripts save: now and then while they run, and
// once more when they have ended. Scripts with the SDK say so themselves.
func (sv *Saves) lookForPlain(r *Run, g Generation) {
	if r.looking || g.Report == nil || !sv.leads(g) {
		return
	}
	switch {
	case r.Found != nil && r.Found.Final:
		return
	case len(g.Report.Saves) > 0 || len(g.Report.Workers) == 0:
		if g.Ended {
			r.Found = &agent.Plain{Final: true, Step: -1}
		}
		return
	case !g.Ended && !g.Live, (!g.Ended || !r.failing.IsZero()) && time.Since(r.began) < lookEvery:
		return
	}
	sv.lookInto(r, g)
}

// cannotLook notes how a look for plain checkpoints has ended, and reports whether
// it is worth another.
func (sv *Saves) cannotLook(r *Run, of record.JobGen, err error) (again bool) {
	if err == nil {
		r.failing = time.Time{}
		return false
	}
	log := sv.Logger(of)
	log.Error().Err(err).Msg("cannot look for plain checkpoints")
	if r.failing.IsZero() {
		r.failing = time.Now()
	}
	if errors.Is(err, owned.ErrForeign) { // shown at once: the script goes on saving in vain
		r.Lost = fmt.Sprintf("nothing that it saves is kept: %v", err)
	}
	limit := lookAgain
	if errors.Is(err, userdb.ErrNoAnswer) {
		limit = taskBound // as for other saves
	}
	if time.Since(r.failing) < limit {
		return true
	}
	r.Lost = fmt.Sprintf("what it saved last is not known: %v", err)
	return false
}

func (sv *Saves) lookInto(r *Run, g Generation) {
	r.looking, r.began = true, time.Now()
	final := g.Ended
	search := &checkpoint.Search{Dir: filepath.Base(g.Order.Checkpoint), Since: -1, Ended: final}
	if g.Order.Resume != nil {
		search.Since = g.Order.Resume.Step
	}
	in := g.folder()
	sv.Go(func() {
		answer, err := sv.Tasks.Do(sv.Context(), in, dirblob.Task{Root: in.Root(), Find: search}, lookBound)
		sv.Post(func() {
			r.looking = false
			found := &agent.Plain{Final: final, Step: -1}
			if p := answer.Plain; p != nil {
				found.Step, found.Samples, found.Whole, found.Dir = p.Step, p.Samples, p.Whole, filepath.Join(in.Root(), p.Dir)
			}
			if again := sv.cannotLook(r, g.Of, err); again && final {
				return
			}
			if r.Found == nil || *r.Found != *found {
				r.Changed = time.Now()
			}
			r.Found = found
		})
	})
}
