package record

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bellows-ml/bellows/cluster"
)

// Words in records quote what users, their scripts and other nodes wrote. They are
// cut where they are written (Put) and where they are read (Mirror.Apply): an agent
// of another version, or a hostile one, may write more.
const (
	// MaxReason bounds each reason, note and problem in a record, in bytes.
	MaxReason = 1 << 10
	// SmallReason is what is left of each of them in Txn.Small.
	SmallReason = 128
	// maxLogTail bounds the last log lines of a failure, all together.
	maxLogTail = 8 << 10
	// maxExcluded bounds the reasons of all nodes that have refused a job.
	maxExcluded = 64 << 10
	// maxMoves bounds the moves that the record of a decision names.
	maxMoves = 1000
	// MaxModules bounds the names of a job's modules, in bytes: the file in which a node keeps
	// them, and what nodes hand each other of it.
	MaxModules = 2 << 20
	// MaxCount bounds steps and samples.
	MaxCount = cluster.MaxSteps
	// maxProgressLine bounds JobProgress.Line, in bytes: a progress bar.
	maxProgressLine = 256
	// maxRate bounds steps and samples a second: more is no measurement.
	maxRate = 1e9
	// maxWord bounds what is no text for people, such as an address, a digest or a user's name.
	maxWord = 1 << 10
)

// cutMark ends a text that has been cut.
const cutMark = "… (cut)"

// Cut returns a text of at most so many bytes, cut between two characters and
// marked if it was longer.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := max(0, most-len(cutMark))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimSuffix(text[:end], "…") + cutMark // what was cut before is marked once
}

// Reason is Cut for what a record holds as a reason, a note or a problem.
func Reason(text string) string { return Cut(text, MaxReason) }

// wordy is a record with texts for people.
type wordy interface {
	// cut returns the record with none of its texts longer than most.
	cut(most int) any
}

// cutWords returns a record with its texts cut.
func cutWords[T any](v T, most int) T {
	if w, ok := any(v).(wordy); ok {
		return w.cut(most).(T) //nolint:forcetypeassert // each returns its own type, which a test holds them to
	}
	return v
}

// checked is a record with parts that other records repeat and that cannot be cut.
type checked interface{ check() error }

// ErrUnreadable marks a record that is not taken in because a part of it that
// cannot be cut is longer than it can rightly be.
var ErrUnreadable = errors.New("it is longer than it can rightly be")

// word demands that a part of a record is no longer than it can rightly be.
func word[T ~string](what string, most int, parts ...T) error {
	for _, part := range parts {
		if len(part) > most {
			return fmt.Errorf("%s %.40q… has %d bytes, at most %d: %w", what, string(part), len(part), most, ErrUnreadable)
		}
	}
	return nil
}
