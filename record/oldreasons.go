package record

import (
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/record/reason"
)

// Versions before reasons had clauses wrote their texts alone. This file reads what they wrote, and writes the texts
// beside the clauses, so that such a version can lead or host again after an upgrade. It goes, with the fields that end
// in Text, in the release after the first that writes clauses.

// worded returns a reason of at most so many bytes, and its text. Where only the text is known, or one of the codes is
// of a later version, the reason is read from the text.
func worded(r reason.Reason, text string, most int) (reason.Reason, string) {
	if len(r) == 0 || !r.Known() {
		r = read(text)
	}
	r = r.Cut(most)
	return r, r.String()
}

// read finds in a text what decisions look at: what is said of a job that was accepted, that no decision has seen, and
// that starts after a wait. All else stays as it was written.
func read(text string) reason.Reason {
	const after, again = "restart after: ", "; the job starts again by itself"
	switch text {
	case reason.New(reason.Accepted).String():
		return reason.Of(reason.New(reason.Accepted))
	case reason.New(reason.Undecided).String():
		return reason.Of(reason.New(reason.Undecided))
	}
	if rest, restarts := strings.CutPrefix(text, after); restarts {
		return reason.Of(reason.New(reason.RestartOf).About(read(rest)))
	}
	if before, rest, waits := strings.Cut(text, again); waits {
		return reason.Said(before).And(reason.New(reason.StartsAgain)).And(reason.Said(strings.TrimPrefix(rest, ", "))...)
	}
	return reason.Said(text)
}

// readMissing reports whether a refusal's text says that something is missing, as Failed.Missing does since.
func readMissing(f Failed) bool {
	return f.Kind == NodeRefused && slices.ContainsFunc([]string{"workdir ", "env file ", "command ", "owner "}, func(what string) bool {
		return strings.HasPrefix(f.Reason, what)
	})
}

// readLock reports whether a problem's text tells of a lock that outlived a generation, as Problem.Lock does since.
func readLock(p Problem) bool { return strings.Contains(p.Text, "its lock outlived ") }

// RunsNoScript reports whether nothing is prepared because the command runs no Python script, of which people need not be told.
// Agents say that by a text of its own, which is what it is known by until they send a code.
func (s Started) RunsNoScript() bool { return s.Unforkable == NoScript }
