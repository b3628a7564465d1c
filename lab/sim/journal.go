package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"time"
)

// code names a kind of entry in the journal. Codes are part of what is hashed:
// they do not change.
type code string

const (
	codeSubmitted code = "submitted" // job, fewest and most workers, work in ns
	codeGivenUp   code = "given-up"  // job, by its owner
	codeLost      code = "lost"      // node
	codeBack      code = "back"      // node
	codeDecided   code = "decided"   // job, workers before and after
	codeRejected  code = "rejected"  // the answer of a policy
	codeRefused   code = "refused"   // a transaction of the leader
	codePlan      code = "plan"      // job, generation, workers before, then each member with its devices
	codePhase     code = "phase"     // job, generation, phase
	codeNote      code = "note"      // job; not hashed
)

// journal is the log of a run, an entry for each thing that happened. It hashes
// the codes and numbers of its entries as it goes, and none of their texts, so
// that the hash stays equal where only words change. See ADR 43.
type journal struct {
	sum  hash.Hash
	sink func(line []byte)
	line []byte
}

func newJournal(sink func([]byte)) journal { return journal{sum: sha256.New(), sink: sink} }

// add writes one entry: the virtual time in nanoseconds, its code, and its fields.
func (l *journal) add(now time.Duration, c code, fields ...any) { l.explain(now, "", c, fields...) }

// explain is add with a text for people, which only the sink gets.
func (l *journal) explain(now time.Duration, text string, c code, fields ...any) {
	l.line = strconv.AppendInt(l.line[:0], int64(now), 10)
	l.line = append(l.line, ' ')
	l.line = append(l.line, c...)
	for _, f := range fields {
		l.line = append(l.line, ' ')
		l.line = fmt.Append(l.line, f)
	}
	end := len(l.line)
	if l.sink != nil {
		if text != "" {
			l.line = append(append(l.line, ": "...), text...)
		}
		l.sink(l.line)
	}
	if c == codeNote {
		return
	}
	l.line = append(l.line[:end], '\n')
	// Write of a hash never returns an error.
	_, _ = l.sum.Write(l.line)
}

func (l *journal) sha256() string { return hex.EncodeToString(l.sum.Sum(nil)) }
