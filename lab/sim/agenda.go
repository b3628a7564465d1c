package sim

import (
	"container/heap"
	"time"
)

// agenda is what is still to happen, ordered by time and then by when it was noted down.
type agenda struct {
	items    entries
	sequence int
}

type entry struct {
	at       time.Duration
	sequence int
	do       func()
}

// at notes down something to happen at t.
func (a *agenda) at(t time.Duration, do func()) {
	a.sequence++
	heap.Push(&a.items, entry{t, a.sequence, do})
}

// next returns the time of what comes first.
func (a *agenda) next() (time.Duration, bool) {
	if len(a.items) == 0 {
		return 0, false
	}
	return a.items[0].at, true
}

// due takes out the first thing that is due at now.
func (a *agenda) due(now time.Duration) (func(), bool) {
	if t, ok := a.next(); !ok || t > now {
		return nil, false
	}
	return heap.Pop(&a.items).(entry).do, true
}

// entries implements heap.Interface.
type entries []entry

func (e entries) Len() int { return len(e) }

func (e entries) Less(i, k int) bool {
	if e[i].at != e[k].at {
		return e[i].at < e[k].at
	}
	return e[i].sequence < e[k].sequence
}

func (e entries) Swap(i, k int) { e[i], e[k] = e[k], e[i] }

// Push implements heap.Interface.
func (e *entries) Push(x any) { *e = append(*e, x.(entry)) }

// Pop implements heap.Interface.
func (e *entries) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = entry{}
	*e = (*e)[:last]
	return x
}
