package etcdtest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// Log collects the lines of a logger. It is safe for concurrent use.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// NewLog returns a logger and its lines.
func NewLog() (zerolog.Logger, *Log) {
	l := &Log{}
	return zerolog.New(l), l
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns all lines so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Await waits until the lines contain a text.
func (l *Log) Await(t testing.TB, want string) {
	t.Helper()
	for deadline := time.Now().Add(Soon); !strings.Contains(l.String(), want); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log does not contain %q:\n%s", want, l)
		}
	}
}
