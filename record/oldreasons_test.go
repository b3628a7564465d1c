package record_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// through writes a record as this version does, and reads it as a mirror does.
func through[T any](t *testing.T, key string, value []byte, of func(*record.Mirror) T) T {
	t.Helper()
	m := mirror(t, nil)
	if _, err := m.Apply(record.Change{KV: record.KV{Key: key, Value: value, CreateRevision: 1, ModRevision: 1}}); err != nil {
		t.Fatal(err)
	}
	return of(m)
}

// A leader of the version before wrote texts alone. What decisions look at is found in them.
func TestTextsOfOlderVersions(t *testing.T) {
	for text, want := range map[string]reason.Reason{
		"accepted":                    reason.Of(reason.New(reason.Accepted)),
		"waits for the next decision": reason.Of(reason.New(reason.Undecided)),
		"restart after: rank 0 failed on n1: exit status 1": reason.Of(reason.New(reason.RestartOf).About(reason.Said("rank 0 failed on n1: exit status 1"))),
		"cannot run now: n1: it is full; the job starts again by itself, try 1 of 60, then it is held": reason.Said("cannot run now: n1: it is full").
			And(reason.New(reason.StartsAgain)).And(reason.Said("try 1 of 60, then it is held")...),
		"accepted, they said": reason.Said("accepted, they said"),
	} {
		s := through(t, record.StateKey("j-aaaaaa"), mustJSON(t, map[string]any{"phase": "queued", "reason": text}), func(m *record.Mirror) record.State {
			return m.Job("j-aaaaaa").State.Value
		})
		if !s.Reason.Equal(want) {
			t.Errorf("%q is read as %v", text, s.Reason)
		}
	}
}

// A later version may write codes that this one does not know: their text is shown, and kept in what is written.
func TestCodesOfLaterVersions(t *testing.T) {
	value := mustJSON(t, map[string]any{"phase": "queued", "reason": "it waits for a comet", "because": []map[string]any{{"code": "comet", "args": map[string]string{"name": "Halley"}}}})
	of := func(m *record.Mirror) record.State { return m.Job("j-aaaaaa").State.Value }
	s := through(t, record.StateKey("j-aaaaaa"), value, of)
	if s.Reason.String() != "it waits for a comet" {
		t.Errorf("%v", s.Reason)
	}
	s = through(t, record.StateKey("j-aaaaaa"), record.Put(record.StateKey("j-aaaaaa"), s).Value, of)
	if s.Reason.String() != "it waits for a comet" || s.ReasonText != "it waits for a comet" {
		t.Errorf("written again: %+v", s)
	}
}

// A version without codes reads the text of what this one writes, and so does etcdctl.
func TestTextIsWrittenBesideCodes(t *testing.T) {
	why := reason.Of(reason.New(reason.NodeLost, "node", "n1"), reason.New(reason.Restart, "n", 1, "most", 3))
	const text = "node n1 lost; restart 1 of 3"
	for _, v := range []any{
		record.State{Reason: why}, record.State{Waits: why}, record.Halt{Why: why}, record.Plan{Why: why}, record.Rescale{Why: why}, record.BadCheckpoint{Reason: why}, record.Event{Why: why},
	} {
		value := string(record.Put("x", v).Value)
		if !strings.Contains(value, `"`+text+`"`) || !strings.Contains(value, `"code":"restart"`) {
			t.Errorf("%T is written as %s", v, value)
		}
	}
}

// What is missing on a node was told from other refusals by the words of the refusal.
func TestRefusalsOfOlderVersions(t *testing.T) {
	for text, want := range map[string]bool{
		"workdir /w: no such file or directory": true, "env file /e: it belongs to another user": true, "command x: not found": true, "owner ann is not known": true,
		"execute /bin/x: no such file or directory": false, "checkpoint_dir /ck: permission denied": false, "workdirs": false,
	} {
		key := record.AckKey("n1", "j-aaaaaa", 1, record.AckFailed)
		f := through(t, key, mustJSON(t, record.Failed{Kind: record.NodeRefused, Reason: text, Nonce: "n"}), func(m *record.Mirror) record.Failed {
			return m.Node("n1").Ack("j-aaaaaa", 1, "n").Failed.Value
		})
		if f.Missing != want || f.Reason != text {
			t.Errorf("%q: %+v", text, f)
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
