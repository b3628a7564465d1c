package logging

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A pipe without a reader takes some kilobytes and then no more.
func TestWriteReturnsWhateverHangs(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_ = w.Fd() // from now on a write to it blocks its thread, as one to stderr does
	size, err := unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	l := NewWriter(w)
	for range 3 * queued {
		if n, err := l.Write([]byte("line\n")); n != 5 || err != nil {
			t.Fatal(n, err)
		}
	}
	l.Close() // does not wait for ever either
	// What is queued is written as soon as the pipe is read, and says what is missing.
	var all bytes.Buffer
	text := make(chan string, 1)
	go func() {
		_, _ = io.CopyN(io.Discard, r, int64(size))
		_, _ = io.Copy(&all, r)
		text <- all.String()
	}()
	<-l.ended
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := <-text
	lines := strings.Count(got, "line\n")
	if lines < queued || lines > queued+1 {
		t.Errorf("%d lines were kept, want the queue's %d and the one that was being written", lines, queued)
	}
	if want := fmt.Sprintf(`"lines":%d,`, 3*queued-lines); strings.Count(got, want) != 1 || strings.Count(got, "missing here") != 1 {
		t.Errorf("the end does not say once that %d lines are missing: %q", 3*queued-lines, got[max(0, len(got)-300):])
	}
}

// steps lets one write through at a time.
type steps struct {
	mu  sync.Mutex
	got bytes.Buffer
	let chan struct{}
}

func (s *steps) Write(p []byte) (int, error) {
	<-s.let
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(p)
}

func TestLinesKeepTheirOrderAndTheirText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &steps{let: make(chan struct{})}
		l := NewWriter(s)
		line := make([]byte, 2)
		for i := range 10 {
			copy(line, fmt.Sprintf("%d\n", i))
			_, _ = l.Write(line) // which is used again
		}
		close(s.let)
		synctest.Wait()
		if s.got.String() != "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n" {
			t.Errorf("%q", s.got.String())
		}
		l.Close()
	})
}

func TestCloseWritesWhatIsQueuedAndHasPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &steps{let: make(chan struct{})}
		l := NewWriter(s)
		for range 3 {
			_, _ = l.Write([]byte("x"))
		}
		begun := time.Now()
		l.Close()
		if took := time.Since(begun); took != Patience {
			t.Errorf("took %v, want %v", took, Patience)
		}
		close(s.let)
		<-l.ended
		if s.got.String() != "xxx" {
			t.Errorf("%q", s.got.String())
		}
	})
}
