package sim

import (
	"cmp"
	"slices"
)

// elasticFlowEvents are the moments at which its simulator has something to do.
type elasticFlowEvents []*elasticFlowEvent

// elasticFlowEvent is who came and who ends at one moment. Jobs keep the order
// in which they were noted down; it breaks ties.
type elasticFlowEvent struct {
	time        int
	came, ended []*elasticFlowJob
}

func (ev *elasticFlowEvent) come(j *elasticFlowJob) { ev.came = append(ev.came, j) }

// at finds or makes the event of a moment.
func (e *elasticFlowEvents) at(time int) *elasticFlowEvent {
	if ev := e.find(time); ev != nil {
		return ev
	}
	ev := &elasticFlowEvent{time: time}
	*e = append(*e, ev)
	return ev
}

func (e *elasticFlowEvents) find(time int) *elasticFlowEvent {
	i := slices.IndexFunc(*e, func(ev *elasticFlowEvent) bool { return ev.time == time })
	if i < 0 {
		return nil
	}
	return (*e)[i]
}

// end notes down that a job will end.
func (e *elasticFlowEvents) end(j *elasticFlowJob, time int) {
	if ev := e.at(time); !slices.Contains(ev.ended, j) {
		ev.ended = append(ev.ended, j)
	}
}

// move notes down that a job's end is another one than it was.
func (e *elasticFlowEvents) move(j *elasticFlowJob, from, to int) {
	if from == to {
		return
	}
	if ev := e.find(from); ev != nil {
		ev.ended = slices.DeleteFunc(ev.ended, func(o *elasticFlowJob) bool { return o == j })
		if len(ev.came)+len(ev.ended) == 0 {
			*e = slices.DeleteFunc(*e, func(o *elasticFlowEvent) bool { return o == ev })
		}
	}
	e.end(j, to)
}

// gather puts the events together that lie within a slot of now, but for one
// that nothing comes after, and returns when the first is due; false if none is left.
func (e *elasticFlowEvents) gather(now, slot int) (int, bool) {
	if len(*e) == 0 {
		return 0, false
	}
	slices.SortStableFunc(*e, func(a, b *elasticFlowEvent) int { return cmp.Compare(a.time, b.time) })
	first := (*e)[0]
	for next := first.time; next-now <= slot && len(*e) > 1; {
		first.time = now + slot
		if (*e)[1].time-now > slot {
			break
		}
		next = (*e)[1].time
		first.came = append(first.came, (*e)[1].came...)
		first.ended = append(first.ended, (*e)[1].ended...)
		*e = slices.Delete(*e, 1, 2)
	}
	return first.time, true
}
