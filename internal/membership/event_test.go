package membership

import (
	"slices"
	"testing"
)

func kinds(q *queue) []Kind {
	var got []Kind
	for len(q.ch) > 0 {
		got = append(got, (<-q.ch).Kind)
	}
	return got
}

func TestQueueSaysWhatItDropped(t *testing.T) {
	q := newQueue(4)
	for range 10 {
		q.push(Event{Kind: Joined})
	}
	if got, want := kinds(q), []Kind{Joined, Joined, Joined, Missed}; !slices.Equal(got, want) {
		t.Errorf("full queue: %v, want %v", got, want)
	}

	q.push(Event{Kind: Left})
	if got, want := kinds(q), []Kind{Left}; !slices.Equal(got, want) {
		t.Errorf("after reading: %v, want %v", got, want)
	}
}

// A reader that makes room for one event at a time still ends on Missed for
// whatever it lost.
func TestQueueEndsOnMissed(t *testing.T) {
	q := newQueue(3)
	for range 5 {
		q.push(Event{Kind: Joined})
	}
	<-q.ch
	q.push(Event{Kind: Failed})
	if got, want := kinds(q), []Kind{Joined, Missed, Missed}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestQueueClose(t *testing.T) {
	q := newQueue(4)
	q.push(Event{Kind: Joined})
	q.close()
	q.close()
	q.push(Event{Kind: Left})
	var got []Kind
	for e := range q.ch {
		got = append(got, e.Kind)
	}
	if want := []Kind{Joined}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestKindStrings(t *testing.T) {
	for k := Joined; k <= Missed; k++ {
		if s := k.String(); s == "" || s[:4] == "kind" {
			t.Errorf("kind %d has no name", k)
		}
	}
	if s := Kind(0).String(); s != "kind(0)" {
		t.Errorf("zero kind is %q", s)
	}
}
