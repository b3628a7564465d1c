package nvml

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// firstAnswer bounds a child's first answer, for which it loads the library.
	// Without persistence mode the driver wakes every device for that, seconds each.
	firstAnswer = 60 * time.Second
	// answerWithin bounds every later one.
	answerWithin = 10 * time.Second
	// deadWithin is how soon a killed child is gone, unless it hangs in the kernel.
	deadWithin = 2 * time.Second
	// keptStderr is how much of a child's last words is kept: a dump of its stacks.
	keptStderr = 64 << 10
	// longestAnswer holds a survey of 16 devices with a thousand processes each.
	longestAnswer = 4 << 20
)

// probe asks a child process, which it starts when it needs one.
type probe struct {
	command []string
	first   time.Duration
	within  time.Duration

	turn  chan struct{} // held by the goroutine that talks to the child
	child *child        // nil = none
	stuck *child        // was killed and has not died
}

// child is one process that serves surveys.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *os.File // where its answers come from; closed once it is gone
	answers *bufio.Scanner
	stderr  *tail
	asked   bool          // has answered before
	since   time.Time     // of the kill
	gone    chan struct{} // closed when it has been reaped
	err     error         // how it ended; read after gone
}

// NewProbe makes a source that asks a child process for each survey: command is
// run, and is to call Serve on its standard input and on descriptor 3. A child
// lives as long as it answers.
func NewProbe(command ...string) Source {
	return newProbe(firstAnswer, answerWithin, command)
}

func newProbe(first, within time.Duration, command []string) *probe {
	return &probe{command: command, first: first, within: within, turn: make(chan struct{}, 1)}
}

// Survey asks the child, within a deadline.
func (p *probe) Survey(ctx context.Context) (Survey, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return Survey{}, fmt.Errorf("wait for an earlier survey: %w", ctx.Err())
	}
	defer func() { <-p.turn }()
	if err := p.ready(); err != nil {
		return Survey{}, err
	}
	s, err := p.ask(ctx)
	if err != nil {
		return Survey{}, err
	}
	if s.Problem != "" && len(s.Devices) == 0 {
		p.end(p.child) // it has no library; a later one may find it
		p.child = nil
	}
	return s, nil
}

// Close ends the child.
func (p *probe) Close() error {
	p.turn <- struct{}{} // never given back: the source is not used afterwards
	if p.child != nil {
		p.end(p.child)
		p.child = nil
	}
	return nil
}

// ready makes sure of a child, unless an earlier one still hangs: a second one
// would hang beside it, and a third.
func (p *probe) ready() error {
	if p.stuck != nil {
		select {
		case <-p.stuck.gone:
			p.stuck.close()
			p.stuck = nil
		default:
			return fmt.Errorf("ask the NVIDIA driver: process %d hangs in it since %s and cannot be killed: see dmesg; reboot the node",
				p.stuck.cmd.Process.Pid, p.stuck.since.Format(time.TimeOnly))
		}
	}
	if p.child != nil {
		select {
		case <-p.child.gone: // between two surveys, for whatever reason
			p.child.close()
			p.child = nil
		default:
			return nil
		}
	}
	c, err := start(p.command)
	if err != nil {
		return err
	}
	p.child = c
	return nil
}

// ask puts one question. A child that does not answer it in time, or not in
// words, is ended.
func (p *probe) ask(ctx context.Context) (Survey, error) {
	c := p.child
	within := p.within
	if !c.asked {
		within = p.first
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within,
		fmt.Errorf("the NVIDIA driver did not answer within %s: it may hang; see nvidia-smi and dmesg", within))
	defer cancel()

	type answer struct {
		s   Survey
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		var a answer
		if _, a.err = io.WriteString(c.in, ask+"\n"); a.err == nil {
			a.s, a.err = c.read()
		}
		answered <- a
	}()
	select {
	case a := <-answered:
		if a.err == nil {
			c.asked = true
			return a.s, nil
		}
		select {
		case <-c.gone: // has closed its end by ending: how, is worth knowing
		case <-time.After(deadWithin):
		}
		p.end(c)
		p.child = nil
		return Survey{}, fmt.Errorf("ask the NVIDIA driver: %w", c.death(a.err))
	case <-ctx.Done():
		p.end(c) // which ends the read too
		p.child = nil
		return Survey{}, fmt.Errorf("ask the NVIDIA driver: %w", context.Cause(ctx))
	}
}

func start(command []string) (*child, error) {
	c := &child{cmd: exec.Command(command[0], command[1:]...), stderr: &tail{}, gone: make(chan struct{})}
	// Not among those whom a signal of the terminal reaches: the agent ends it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Whatever the library prints on its own is not an answer.
	c.cmd.Stdout, c.cmd.Stderr = c.stderr, c.stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	c.cmd.ExtraFiles = []*os.File{write}
	// A grandchild that keeps the pipes must not keep Wait.
	c.cmd.WaitDelay = deadWithin
	err = c.cmd.Start()
	write.Close() //nolint:errcheck,gosec // the child has its own
	if err != nil {
		read.Close() //nolint:errcheck,gosec // nothing was written to it
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	c.in, c.out, c.answers = in, read, bufio.NewScanner(read)
	c.answers.Buffer(nil, longestAnswer)
	go func() {
		c.err = c.cmd.Wait()
		close(c.gone)
	}()
	return c, nil
}

// read takes the next answer.
func (c *child) read() (Survey, error) {
	if !c.answers.Scan() {
		if err := c.answers.Err(); err != nil {
			return Survey{}, fmt.Errorf("read its answer: %w", err)
		}
		return Survey{}, io.ErrUnexpectedEOF
	}
	var s Survey
	if err := json.Unmarshal(c.answers.Bytes(), &s); err != nil {
		return Survey{}, fmt.Errorf("read its answer: %w", err)
	}
	return s, nil
}

// end kills the child and remembers it where that takes no effect.
func (p *probe) end(c *child) {
	c.in.Close() //nolint:errcheck,gosec // asks it to go; the kill sees to it
	c.since = time.Now()
	if err := syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		fmt.Fprintf(c.stderr, "kill %d: %v\n", c.cmd.Process.Pid, err)
	}
	select {
	case <-c.gone:
		c.close()
	case <-time.After(deadWithin):
		p.stuck = c
	}
}

func (c *child) close() {
	c.out.Close() //nolint:errcheck,gosec // only read from
}

// death says how a child ended, where that is the cause, with its words: "symbol
// lookup error" is how a library that is too old shows.
func (c *child) death(cause error) error {
	if !errors.Is(cause, io.ErrUnexpectedEOF) && !errors.Is(cause, syscall.EPIPE) {
		return cause
	}
	words := c.stderr.telling()
	switch {
	case strings.Contains(words, "symbol lookup error"):
		return fmt.Errorf("the NVIDIA library is too old for this bellows: %s: install a newer driver", words)
	case words != "":
		return fmt.Errorf("the process that asks it ended (%w): %s", c.err, words)
	case c.err != nil:
		return fmt.Errorf("the process that asks it ended: %w", c.err)
	default:
		return cause
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - keptStderr; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

// telling is the line that says most: that of a fatal signal, before its
// registers and stacks, else the last one.
func (t *tail) telling() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "SIG") || strings.HasPrefix(line, "fatal error:") {
			return strings.TrimSpace(line)
		}
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}
