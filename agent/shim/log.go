package shim

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/ranklog"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

const (
	// defaultLogBytes caps a rank's logs if the order does not.
	defaultLogBytes = 64 << 20
	logTailLines    = 20
	// logTailBytes is what is remembered of one line for a failure's report.
	logTailBytes = 400
)

// workerLog takes what one worker writes and keeps it in the rank's log, and the last
// lines in memory. The job's own processes cannot write to the log.
//
// The worker writes into a pipe of the shim's. Its own descriptor on the file
// would be simpler, but could be neither capped nor rotated without losing lines,
// and a full disk would surface as an error in a user's print. The pipe costs
// nothing in safety: it does not end at the agent, which may come and go, and the
// workers do not outlive the shim anyway.
type workerLog struct {
	log  *ranklog.Writer
	from *os.File
	done chan struct{} // closed when the last writer has closed the pipe
	read *lineReader   // for progress; nil = nothing is read

	mu   sync.Mutex
	tail []string // the last whole lines
	rest []byte   // of a line not ended yet
	back bool     // a carriage return came last: what follows replaces rest
}

// openLog makes a rank's log and returns the descriptor to give to the worker,
// which the caller closes once the worker has it. A log that cannot be opened
// does not keep the worker from running.
func openLog(o run.Order, rank int, read *lineReader) (*workerLog, int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, fmt.Errorf("make log pipe of rank %d: %w", rank, err)
	}
	if err := unix.SetNonblock(p[0], true); err != nil { // our end only: for the poller
		return nil, 0, fmt.Errorf("make log pipe of rank %d: %w", rank, err)
	}
	return attachLog(o, rank, os.NewFile(uintptr(p[0]), "log pipe"), read), p[1], nil
}

// attachLog makes a rank's log of what comes out of a pipe, whose end it owns.
func attachLog(o run.Order, rank int, from *os.File, read *lineReader) *workerLog {
	most := o.LogMaxBytes
	if most <= 0 {
		most = defaultLogBytes
	}
	l := &workerLog{log: ranklog.NewWriter(ranklog.Path(o.LogDir, rank), most), from: from, done: make(chan struct{}), read: read}
	go l.run()
	return l
}

func (l *workerLog) run() {
	defer close(l.done)
	b := make([]byte, 32<<10)
	for {
		n, err := l.from.Read(b)
		if n > 0 {
			l.remember(b[:n])
			l.log.Add(b[:n])
			l.read.add(b[:n])
		}
		if err != nil {
			break
		}
	}
	l.read.end()
	_ = l.from.Close()
	l.log.Close()
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
			l.tail = append(l.tail, cluster.Printable(string(l.rest)))
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
		lines = append(lines, cluster.Printable(string(l.rest)))
	}
	return lines[max(0, len(lines)-logTailLines):]
}

// stop ends the reading although a process may still have the pipe open.
func (l *workerLog) stop() { _ = l.from.SetReadDeadline(time.Now()) }
