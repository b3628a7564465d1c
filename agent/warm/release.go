package warm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/owner"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

// releaseBound is how long parked processes may take until each has said that it can go on.
const releaseBound = 15 * time.Second

// Release is what parked processes are told, and where they belong from then on.
type Release struct {
	Dir         string    // the run directory
	Order       run.Order // with its plan, and what the owner's file of secrets adds to its environment
	FirstRank   int       // of this node
	Identity    owner.Identity
	Containment *contain.Containment
	Log         zerolog.Logger
}

// Bind tells parked processes their plan, and puts each where its worker belongs. A command that waits by itself
// is told in LetGo: it goes on at once.
func (r Release) Bind(all []*Parked) (err error) {
	for local, p := range all {
		if !maps.Equal(r.Order.EnvironmentAhead(r.Dir), p.env) {
			return errors.New("its environment has changed since it was parked")
		}
		if bytes := p.wrote(); bytes != 0 {
			return fmt.Errorf("before it was parked it wrote %d bytes that were not seen to be written", bytes)
		}
		if err = p.conn.SetDeadline(time.Now().Add(releaseBound)); err != nil {
			return err
		}
		// The new world waits for this process from here on, so it gets a worker's priority before it compares what it read.
		if err = Hurry(p.Process.PID); err != nil {
			return err
		}
		if r.Order.Waits() {
			continue
		}
		if err = p.say(run.Listed(r.told(local))); err != nil {
			return fmt.Errorf("tell a parked process its plan: %w", err)
		}
	}
	for local, p := range all {
		if !r.Order.Waits() {
			if err = r.hearOk(p); err != nil {
				return err
			}
		}
		now, errStat := proc.ReadStat(p.Process.PID)
		if errStat != nil || now.Start != p.Process.StartTime || !now.Lives() {
			return errors.Join(errors.New("what was parked has ended"), errStat)
		}
		if err = r.settle(p, local); err != nil {
			return err
		}
	}
	return nil
}

// settle puts a parked process where its worker belongs, with the limits of one.
func (r Release) settle(p *Parked, local int) error {
	if err := r.Containment.Place(p.Process.PID, local); err != nil {
		return err
	}
	if r.Order.Waits() {
		return nil
	}
	if err := p.showPlan(r.told(local)); err != nil {
		r.Log.Debug().Err(err).Msg("the kernel shows the environment of a parked process without its plan")
	}
	if err := p.free(r.Identity); err != nil {
		return fmt.Errorf("let a parked process write files again: %w", err)
	}
	return nil
}

// told is what a parked process is told: what the plan adds to its environment. A command that waits by itself gets all of it.
func (r Release) told(local int) map[string]string {
	all := r.Order.Environment(r.Dir, local)
	if r.Order.Waits() {
		return all
	}
	before := r.Order.EnvironmentAhead(r.Dir)
	maps.DeleteFunc(all, func(name, value string) bool {
		had, ok := before[name]
		return ok && had == value
	})
	return all
}

// hearOk hears that what a process has read is unchanged.
func (r Release) hearOk(p *Parked) error {
	words, err := p.hear()
	switch {
	case err != nil:
		return fmt.Errorf("a parked process: %w", err)
	case words[0] == "cold" && len(words) > 1:
		if len(words) > 2 && words[2] != "-" {
			Learn(r.Order.LearnedFile, words[2])
		}
		return errors.New(words[1])
	case words[0] != "ok":
		return fmt.Errorf("a parked process says %q", words)
	}
	return nil
}

// LetGo lets the processes go on, the others once rank 0 listens, where the job's workers are known to meet by a framework.
// If one has ended before, its peers are told of its end as of any worker's.
func (r Release) LetGo(ctx context.Context, all []*Parked) error {
	for i, p := range all {
		rank := r.FirstRank + i
		if (rank == 1 || rank != 0 && i == 0) && p.meets && r.meetsFirst() {
			awaitMaster(ctx, r.Order.World.Master, masterBound)
		}
		last := []string{"go"}
		if r.Order.Waits() { // it goes on once it has read its environment
			last = run.Listed(r.told(i))
		}
		if err := p.say(last); err != nil && i == 0 {
			return fmt.Errorf("a parked process has ended: %w", err)
		}
	}
	return nil
}

// meetsFirst reports whether ranks are to wait until rank 0 listens.
func (r Release) meetsFirst() bool {
	w := r.Order.World
	return w.Processes() > 1 && w.Master.Port != 0 && ReadLearned(r.Order.LearnedFile).Meets
}
