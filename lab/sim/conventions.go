package sim

import (
	"fmt"
	"time"
)

// conventions runs Rules: it calls Instant when it is due, ends jobs when the
// rules say, and holds the coordinator to what was decided.
type conventions struct {
	rules    Rules
	state    State
	forecast map[int]int // job → number of its newest forecast end
	again    int
	due      bool
	surveys  uint64
}

func newConventions(r Rules, jobs []Job) *conventions {
	return &conventions{rules: r, state: State{Jobs: jobs, Ends: map[int]time.Duration{}}, forecast: map[int]int{}}
}

// instant calls the rules if something came or ended at this moment, or they asked for it.
func (c *conventions) instant(w *world) {
	s := &c.state
	if len(s.Arrived) == 0 && len(s.Ended) == 0 && !c.due {
		return
	}
	c.due = false
	s.Now, s.Again = w.now, 0
	clear(s.Ends)
	c.rules.Instant(s)
	if s.Err != nil {
		return
	}
	s.Arrived, s.Ended = nil, nil
	for _, i := range s.Refused {
		w.giveUp(w.jobs[i])
	}
	s.Refused = nil
	c.prompt(w)
	for i := range s.Jobs {
		at, ok := s.Ends[i]
		if !ok {
			c.forecast[i]++
			continue
		}
		c.forecast[i]++
		number := c.forecast[i]
		w.at(max(at, w.now), func() {
			if c.forecast[i] == number {
				s.Ended = append(s.Ended, i)
				w.complete(w.jobs[i])
			}
		})
	}
	c.again++ // what was asked for earlier no longer counts
	if s.Again > w.now {
		number := c.again
		w.at(s.Again, func() { c.due = c.due || c.again == number })
	}
}

// prompt makes the coordinator ask where rules have decided something new: they are
// a policy that it takes for timeless, which it asks nothing twice, and
// all that has changed is what they think. A new survey of a node is another question.
func (c *conventions) prompt(w *world) {
	for _, j := range w.jobs {
		if !j.phase.Terminal() && workersOf(j) != c.rules.Workers(j.index) {
			c.surveys++
			w.survey(w.nodes[0], c.surveys)
			return
		}
	}
}

// workersOf is how many workers the job has.
func workersOf(j *job) int {
	if j.gen == nil || j.gen.gone {
		return 0
	}
	return j.gen.world.Size()
}

// check reports a job that does not have at this moment what the rules have
// decided: then the numbers would be neither the rules' nor ours.
func (c *conventions) check(w *world) error {
	if err := c.state.Err; err != nil {
		return fmt.Errorf("simulate: at %v: %w", w.now, err)
	}
	for _, j := range w.jobs {
		have := workersOf(j)
		if want := c.rules.Workers(j.index); have != want && !j.phase.Terminal() {
			return fmt.Errorf("simulate: at %v job %.60q has %d workers and the rules have decided %d", w.now, j.ID, have, want)
		}
	}
	return nil
}
