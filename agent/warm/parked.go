package warm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/owner"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

// MemoryPeriod is how often the memory and the output of what runs ahead are looked at.
const MemoryPeriod = 250 * time.Millisecond

// errGivenUp ends what goes on beside the loop for a process that is not wanted any more.
var errGivenUp = errors.New("what ran ahead was given up")

// ErrEarly says that a process could not import early what its framework imports late. The next one does not.
var ErrEarly = errors.New("its framework cannot be imported early")

// errEnded says that a process that ran ahead has ended, or closed its socket.
var errEnded = errors.New("it has ended before it was parked")

// Parked is a process that runs ahead, or waits to be released.
type Parked struct {
	Process run.Process // what was executed: the worker, or a wrapper around it
	pid     int         // who speaks; the same but for a wrapper
	conn    *net.UnixConn
	lines   *bufio.Reader
	Out     *os.File          // what it prints, kept in the pipe until its rank is known
	env     map[string]string // what it was executed with
	Place   string            // where in the script it is parked, and why
	meets   bool              // a framework is loaded of which workers meet at MASTER_PORT
	heard   int64             // bytes that it has sent
	written int64             // bytes that it had written elsewhere before it began; -1 = the kernel does not tell
	fileMax unix.Rlimit       // how large its files may grow once it is released
}

// heed hears a process, unless it waits for room to print: what it prints is read once its rank is known.
func (p *Parked) heed(hear func(*Parked) error) error {
	done, full := make(chan struct{}), make(chan bool, 1)
	go func() {
		look := time.NewTicker(MemoryPeriod)
		defer look.Stop()
		for {
			select {
			case <-done:
				full <- false
				return
			case <-look.C:
			}
			if waiting(p.Out) > capacity(p.Out)*3/8 { // pages that are half empty fill it, too
				full <- true
				_ = p.conn.SetDeadline(time.Unix(0, 1))
				return
			}
		}
	}()
	err := hear(p)
	close(done)
	if <-full && err != nil {
		return fmt.Errorf("it prints more than %d KiB before its start", capacity(p.Out)*3/8>>10)
	}
	return err
}

// confine keeps a process from writing files, until it is released: SIGXFSZ ends it. Python has that ignored,
// and sdk/ahead.py undoes this meanwhile.
func (p *Parked) confine(id owner.Identity) error {
	if p.written = proc.Written(p.pid); p.written >= 0 {
		p.written -= p.heard + int64(waiting(p.Out))
	}
	var none unix.Rlimit
	was, err := limitFiles(p.pid, id, nil)
	if err == nil {
		none.Max = was.Max
		p.fileMax, err = limitFiles(p.pid, id, &none)
	}
	return err
}

// free undoes that.
func (p *Parked) free(id owner.Identity) error {
	_, err := limitFiles(p.pid, id, &p.fileMax)
	return err
}

// wrote reports how many bytes a process has written elsewhere than to the shim and to its output.
func (p *Parked) wrote() int64 {
	now := proc.Written(p.pid)
	if p.written < 0 || now < 0 {
		return 0
	}
	return now - p.written - p.heard - int64(waiting(p.Out))
}

// sender reads what a process sends, and notes who it is, by the kernel's word.
type sender struct{ of *Parked }

func (s *sender) Read(b []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := s.of.conn.ReadMsgUnix(b, oob)
	n = max(n, 0) // it is -1 beside an error, which bufio takes for a fault of the program
	s.of.heard += int64(n)
	if messages, errParse := unix.ParseSocketControlMessage(oob[:oobn]); errParse == nil && len(messages) > 0 {
		if cred, errCred := unix.ParseUnixCredentials(&messages[0]); errCred == nil && cred.Pid > 0 {
			s.of.pid = int(cred.Pid)
		}
	}
	return n, err
}

// say sends fields; what has none is an empty message.
func (p *Parked) say(fields []string) error {
	_, err := p.conn.Write([]byte(strings.Join(append(slices.Clone(fields), ""), "\x00") + "\x00"))
	return err
}

// hear takes one message in: at least one field.
func (p *Parked) hear() (fields []string, err error) {
	size := 0
	for {
		field, err := p.lines.ReadSlice(0)
		if size += len(field); err != nil || size > maxAheadMessage {
			return nil, errEnded
		}
		if len(field) > 1 {
			fields = append(fields, string(field[:len(field)-1]))
		} else if len(fields) > 0 {
			return fields, nil
		}
	}
}

func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

const (
	// aheadVariable names the descriptor at which a process that runs ahead speaks with the shim. The script does not see it.
	aheadVariable = "BELLOWS_AHEAD"
	// readyFDVariable names the descriptor at which a command that waits by itself says that it is ready.
	readyFDVariable = "BELLOWS_READY_FD"
	// aheadFD is the process's end of that socket.
	aheadFD = 3
	// maxAheadMessage bounds a message of a process.
	maxAheadMessage = 64 << 10
	// planRoom is how much longer the environment may become by a plan, in bytes.
	planRoom = 4 << 10
	// checkBound is how long an interpreter may take until it has imported sitecustomize.
	checkBound = time.Minute
	// checkFile is an empty script, by which the interpreter is tried before the job's own script is given to it.
	checkFile = "bellows_check.py"
)

// within bounds what is heard of a process by a time, and by the context.
func (p *Parked) within(ctx context.Context, bound time.Duration) (stop func() bool, err error) {
	if err = p.conn.SetDeadline(time.Now().Add(bound)); err != nil {
		return nil, err
	}
	return context.AfterFunc(ctx, func() { _ = p.conn.SetDeadline(time.Unix(0, 1)) }), nil
}

// Close lets go of a process that is not to be parked any more, or needs no more of this one.
func (p *Parked) Close() { _ = p.conn.Close() }

// Discard ends a process that is not needed, and what it has started.
func (p *Parked) Discard() {
	p.Close()
	_ = p.Out.Close()
	proc.KillTree(p.Process.PID)
}
