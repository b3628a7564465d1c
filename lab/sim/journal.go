package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"time"
)

// journal is the log of a run: one line for each thing that happened, hashed as it goes.
type journal struct {
	sum  hash.Hash
	sink func(line []byte)
	line []byte
}

func newJournal(sink func([]byte)) journal { return journal{sum: sha256.New(), sink: sink} }

// linef writes one line: the virtual time in nanoseconds, then what happened.
func (l *journal) linef(now time.Duration, format string, args ...any) {
	l.line = strconv.AppendInt(l.line[:0], int64(now), 10)
	l.line = append(l.line, ' ')
	l.line = fmt.Appendf(l.line, format, args...)
	if l.sink != nil {
		l.sink(l.line)
	}
	l.line = append(l.line, '\n')
	// Write of a hash never returns an error.
	_, _ = l.sum.Write(l.line)
}

func (l *journal) sha256() string { return hex.EncodeToString(l.sum.Sum(nil)) }
