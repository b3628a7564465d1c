package elasticflow

import (
	"cmp"
	"slices"
)

// events are the moments at which its simulator has something to do.
type events []*event

// event is the jobs that arrive and end at one moment, in the order in which they
// were recorded; it breaks ties.
type event struct {
	time           int
	arrived, ended []*job
}

func (ev *event) arrive(j *job) { ev.arrived = append(ev.arrived, j) }

// at finds or makes the event of a moment.
func (e *events) at(time int) *event {
	if ev := e.find(time); ev != nil {
		return ev
	}
	ev := &event{time: time}
	*e = append(*e, ev)
	return ev
}

func (e *events) find(time int) *event {
	i := slices.IndexFunc(*e, func(ev *event) bool { return ev.time == time })
	if i < 0 {
		return nil
	}
	return (*e)[i]
}

// end records that a job will end.
func (e *events) end(j *job, time int) {
	if ev := e.at(time); !slices.Contains(ev.ended, j) {
		ev.ended = append(ev.ended, j)
	}
}

// move records that a job will end at another time.
func (e *events) move(j *job, from, to int) {
	if from == to {
		return
	}
	if ev := e.find(from); ev != nil {
		ev.ended = slices.DeleteFunc(ev.ended, func(o *job) bool { return o == j })
		if len(ev.arrived)+len(ev.ended) == 0 {
			*e = slices.DeleteFunc(*e, func(o *event) bool { return o == ev })
		}
	}
	e.end(j, to)
}

// gather merges the events that lie within a slot of now, unless only one is left,
// and returns when the first is due; false if none is left.
func (e *events) gather(now, slot int) (int, bool) {
	if len(*e) == 0 {
		return 0, false
	}
	slices.SortStableFunc(*e, func(a, b *event) int { return cmp.Compare(a.time, b.time) })
	first := (*e)[0]
	for next := first.time; next-now <= slot && len(*e) > 1; {
		first.time = now + slot
		if (*e)[1].time-now > slot {
			break
		}
		next = (*e)[1].time
		first.arrived = append(first.arrived, (*e)[1].arrived...)
		first.ended = append(first.ended, (*e)[1].ended...)
		*e = slices.Delete(*e, 1, 2)
	}
	return first.time, true
}
