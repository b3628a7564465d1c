package shim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
)

const (
	// defaultLogBytes caps a rank's logs if the order does not.
	defaultLogBytes = 64 << 20
	logTailLines    = 20
	// logTailBytes is what is remembered of one line for a failure's report.
	logTailBytes = 400
	// logReopen is how often a log that could not be opened is tried again.
	logReopen = time.Second
)

// workerLog takes what one worker writes and keeps it, capped, in a file and the
// one rotated away before it. The n-th file of a rank ends as rank-<r>.log.<n>, so
// that a reader knows where it was however often the log is rotated meanwhile, and
// the one being written is the one after the last of those. Logs are their owner's,
// who reads them through the agent: other users of the machine must not see them,
// nor may the job's own processes write them.
//
// The worker writes into a pipe of the shim's. Its own descriptor on the file
// would be simpler, but could be neither capped nor rotated without losing lines,
// and a full disk would surface as an error in a user's print. The pipe costs
// nothing in safety: it does not end at the agent, which may come and go, and the
// workers do not outlive the shim anyway.
type workerLog struct {
	path  string
	limit int64 // bytes of each of the two files
	from  *os.File
	done  chan struct{} // closed when the last writer has closed the pipe

	file    *os.File
	size    int64
	opened  time.Time // when opening was last tried
	dropped int       // lines that could not be written
	marks   marks     // when it was written

	mu   sync.Mutex
	tail []string // the last whole lines
	rest []byte   // of a line not ended yet
	back bool     // a carriage return came last: what follows replaces rest
}

// openLog makes a rank's log and returns the descriptor to give to the worker,
// which the caller closes once the worker has it. A log that cannot be opened
// does not keep the worker from running.
func openLog(o Order, rank int) (*workerLog, int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, fmt.Errorf("make log pipe of rank %d: %w", rank, err)
	}
	if err := unix.SetNonblock(p[0], true); err != nil { // our end only: for the poller
		return nil, 0, fmt.Errorf("make log pipe of rank %d: %w", rank, err)
	}
	limit := o.LogMaxBytes
	if limit <= 0 {
		limit = defaultLogBytes
	}
	l := &workerLog{
		path:  filepath.Join(o.LogDir, fmt.Sprintf("rank-%d.log", rank)),
		limit: max(limit/2, 1),
		from:  os.NewFile(uintptr(p[0]), "log pipe"),
		done:  make(chan struct{}),
	}
	go l.run()
	return l, p[1], nil
}

func (l *workerLog) run() {
	defer close(l.done)
	b := make([]byte, 32<<10)
	for {
		n, err := l.from.Read(b)
		if n > 0 {
			l.remember(b[:n])
			l.write(b[:n])
		}
		if err != nil {
			break
		}
	}
	_ = l.from.Close()
	if l.file != nil {
		_ = l.file.Close()
	}
	l.unmark()
}

// write appends b to the log, rotating at line ends where there are any.
func (l *workerLog) write(b []byte) {
	for len(b) > 0 {
		if l.file == nil && !l.open() {
			l.dropped += bytes.Count(b, []byte("\n"))
			return
		}
		fits := min(int64(len(b)), l.limit-l.size)
		if fits < int64(len(b)) {
			if end := bytes.LastIndexByte(b[:max(fits, 0)], '\n'); end >= 0 {
				fits = int64(end) + 1
			} else if l.size > 0 { // the line goes to the next file as a whole
				fits = 0
			}
		}
		if fits > 0 {
			l.mark(time.Now())
		}
		n, err := l.file.Write(b[:fits])
		l.size += int64(n)
		if n > 0 {
			l.marks.inLine = b[n-1] != '\n'
		}
		if err != nil {
			l.dropped += 1 + bytes.Count(b[n:], []byte("\n"))
			return
		}
		if b = b[fits:]; len(b) > 0 {
			l.rotate()
		} else if l.dropped > 0 {
			l.confess()
		}
	}
}

// confess says in the log itself what is missing from it.
func (l *workerLog) confess() {
	n, err := fmt.Fprintf(l.file, "[bellows: about %d lines are missing here: the log could not be written]\n", l.dropped)
	l.size += int64(n)
	if err == nil {
		l.dropped = 0
	}
}

// rotate gives the full file its number and only then deletes the one before: at
// no time does the directory say that fewer files have been written.
func (l *workerLog) rotate() {
	_ = l.file.Close()
	l.file, l.opened = nil, time.Time{}
	l.unmark()
	before, number := l.rotated(), l.number()
	if err := os.Rename(l.path, fmt.Sprintf("%s.%d", l.path, number)); err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			// Better the newest lines than the oldest ones, and never more than the cap.
			_ = os.Truncate(l.path, 0)
			l.sweepTimes(number + 1)
		}
		return
	}
	for _, n := range before {
		_ = os.Remove(fmt.Sprintf("%s.%d", l.path, n)) // if it stays, the next rotation tries again
	}
	l.sweepTimes(number)
}

// rotated lists the numbers of the files that were rotated away and not deleted yet, ascending.
func (l *workerLog) rotated() (numbers []int) {
	entries, _ := os.ReadDir(filepath.Dir(l.path)) // what cannot be listed has no numbers that matter
	for _, e := range entries {
		if s, ok := strings.CutPrefix(e.Name(), filepath.Base(l.path)+"."); ok {
			if n, err := strconv.Atoi(s); err == nil && n > 0 {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

func (l *workerLog) open() bool {
	if time.Since(l.opened) < logReopen {
		return false
	}
	l.opened = time.Now()
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return false
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return false
	}
	l.file, l.size = f, info.Size()
	return true
}

func (l *workerLog) remember(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(b) > 0 {
		line, after, ended := bytes.Cut(b, []byte("\n"))
		line = l.overwrite(line)
		if room := logTailBytes - len(l.rest); room > 0 {
			l.rest = append(l.rest, line[:min(room, len(line))]...)
		}
		if ended {
			l.tail = append(l.tail, printable(string(l.rest)))
			l.tail = l.tail[max(0, len(l.tail)-logTailLines):]
			l.rest, l.back = l.rest[:0], false
		}
		b = after
	}
}

// overwrite drops what a terminal would no longer show: progress bars go back to
// the line's beginning and write over it.
func (l *workerLog) overwrite(line []byte) []byte {
	shown := bytes.TrimRight(line, "\r")
	back := bytes.LastIndexByte(shown, '\r')
	if len(shown) > 0 && (l.back || back >= 0) {
		l.rest = l.rest[:0]
	}
	if len(line) > 0 {
		l.back = len(shown) < len(line) || l.back && len(shown) == 0
	}
	return shown[back+1:]
}

// lastLines returns the end of what the worker has written, for people's terminals.
func (l *workerLog) lastLines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := append([]string(nil), l.tail...)
	if len(l.rest) > 0 {
		lines = append(lines, printable(string(l.rest)))
	}
	return lines[max(0, len(lines)-logTailLines):]
}

// stop ends the reading although somebody may still have the pipe open.
func (l *workerLog) stop() { _ = l.from.SetReadDeadline(time.Now()) }

// printable takes out what could command a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case cluster.Disturbs(r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, s)
}
