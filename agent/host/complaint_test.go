package host

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// What is looked at every few seconds is logged when it begins, when it changes, and
// seldom while it stays as it is.
func TestATroubleThatLastsIsLoggedSeldom(t *testing.T) {
	t.Parallel()
	var c complaint
	now := time.Unix(1e9, 0)
	first, second := errors.New("process 1"), errors.New("process 2")
	for i, step := range []struct {
		after time.Duration
		err   error
		due   bool
	}{
		{0, first, true},
		{5 * time.Second, first, false},
		{remindEvery - 6*time.Second, first, false},
		{time.Second, first, true},
		{5 * time.Second, first, false},
		{0, second, true},
		{0, second, false},
		{0, first, true},
	} {
		now = now.Add(step.after)
		if c.due(step.err, now) != step.due {
			t.Errorf("%d: %v after %v more: due %t", i, step.err, step.after, !step.due)
		}
	}
	if !c.over() || c.over() || !c.due(first, now) {
		t.Error("the end of a trouble is not noted once")
	}
}

// A process that cannot be read has the look for runs without a directory fail every
// few seconds for as long as it lives. The log does not fill with that.
func TestAnUnreadableProcessIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	n := bareNode(t.Context(), Config{Node: "n1", RunDir: t.TempDir(), Log: zerolog.New(&log)}, nil)
	unreadable := errors.New("process 7 does not show what it names")
	for range 100 {
		n.adoption.adopt(findings{})
		n.adoption.foundLost(nil, unreadable)
		if n.adoption.unscanned == nil {
			t.Fatal("it is taken as known which runs are here")
		}
	}
	if said := strings.Count(log.String(), "process 7"); said != 1 {
		t.Errorf("logged %d times: %s", said, log.String())
	}
	n.adoption.foundLost(nil, errors.Join(unreadable, errors.New("process 8")))
	n.adoption.foundLost(nil, nil)
	if text := log.String(); strings.Count(text, "process 7") != 2 || !strings.Contains(text, "it is known again") || n.adoption.unscanned != nil {
		t.Errorf("a change, or the end, is not logged: %s", text)
	}
	for range 100 {
		n.adoption.adopt(findings{err: unreadable})
	}
	if said := strings.Count(log.String(), "which runs are here: nothing"); said != 1 {
		t.Errorf("a directory that cannot be read is logged %d times", said)
	}
}
