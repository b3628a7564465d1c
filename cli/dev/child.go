package dev

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/settings"
)

const (
	// restartAfter is what systemd would be told (RestartSec).
	restartAfter = 200 * time.Millisecond
	// failingAfter such short lives in a row something is wrong that a restart
	// does not mend; the tries then come slowly.
	failingAfter = 5
	shortLife    = 2 * time.Second
	slowRestart  = 5 * time.Second
	// remembered is how many different things a child is not quoted with twice.
	remembered = 4
	// maxLogLine bounds a line of a child's log.
	maxLogLine = 1 << 20
)

// child keeps one process of the cluster running, as systemd would: up until it
// is taken down, and then up again when asked.
//
//	up ──ended by itself──► waits 200 ms ──► up
//	 └──take down──► down ──bring up──► up
type child struct {
	name string
	args []string
	env  []string
	log  string
	warn io.Writer // warnings and what is worse, in short

	mu      sync.Mutex
	process *os.Process
	wanted  bool
	ended   chan struct{} // closed when the keeper has ended; nil = none runs
	wake    chan struct{} // cuts the wait before a restart short
	short   int           // how many short lives it has had in a row
	said    []string      // what people were told last, by the keeper
}

// up starts the process and keeps it running until down is called.
func (c *child) up() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted {
		return
	}
	c.wanted, c.ended, c.wake = true, make(chan struct{}), make(chan struct{})
	go c.keep(c.ended, c.wake)
}

// isUp reports whether the process should run.
func (c *child) isUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// down sends the process a signal, keeps it from being restarted, kills it
// should it take longer than grace, and returns once it is gone.
func (c *child) down(s syscall.Signal, grace time.Duration) {
	c.mu.Lock()
	if !c.wanted {
		c.mu.Unlock()
		return
	}
	c.wanted = false
	close(c.wake)
	c.signalLocked(s)
	ended := c.ended
	c.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(grace):
		c.mu.Lock()
		c.signalLocked(syscall.SIGKILL)
		c.mu.Unlock()
		<-ended
	}
}

func (c *child) signalLocked(s syscall.Signal) {
	if c.process != nil {
		_ = c.process.Signal(s) // an error means that it has ended
	}
}

// keep runs the process again and again while it is wanted.
func (c *child) keep(ended, wake chan struct{}) {
	defer close(ended)
	for {
		began := time.Now()
		err := c.once()
		if !c.isUp() {
			return
		}
		pause := restartAfter
		if c.lived(time.Since(began)) {
			pause = slowRestart
		}
		c.say(fmt.Sprintf("ended (%v), starting it again; its log is %s", err, c.log))
		select {
		case <-time.After(pause):
		case <-wake:
			return
		}
	}
}

// lived takes note of how long the process lived, and reports whether restarts do not help.
func (c *child) lived(d time.Duration) (failing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.short++; d > shortLife {
		c.short = 0
	}
	return c.short >= failingAfter
}

// failing reports whether the process ends soon after each start.
func (c *child) failing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.short >= failingAfter
}

// say tells people something, unless they were told just now.
func (c *child) say(text string) {
	if slices.Contains(c.said, text) {
		return
	}
	c.said = append(c.said, text)
	c.said = c.said[max(0, len(c.said)-remembered):]
	fmt.Fprintf(c.warn, "%s: %s\n", c.name, text)
}

// once runs the process to its end.
func (c *child) once() error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log, err := os.OpenFile(c.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(exe, c.args...)
	// The cluster is as its flags say, whatever is set for daemons of this machine.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), settings.IsDaemonVariable), c.env...)
	// A group of its own: Ctrl-C at the terminal is for `bellows dev` alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout = log
	messages, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	c.mu.Lock()
	if !c.wanted {
		c.mu.Unlock()
		return nil
	}
	err = cmd.Start()
	if err == nil {
		c.process = cmd.Process
	}
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	c.relay(messages, log)
	err = cmd.Wait()
	c.mu.Lock()
	c.process = nil
	c.mu.Unlock()
	if err == nil {
		err = errors.New("exit status 0")
	}
	return err
}

// relay writes a child's messages to its log, and warnings to the terminal.
func (c *child) relay(from io.Reader, log io.Writer) {
	lines := bufio.NewReaderSize(from, maxLogLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			_, _ = log.Write(line) // a full disk is no reason to stop a cluster
			// What a process says of its own end, once that was asked for, is no news.
			if text, loud := brief(line); loud && c.isUp() {
				c.say(text)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// brief says a log record in short, and whether people should see it: warnings
// and errors, and whatever is not a record, such as a panic.
func brief(line []byte) (text string, loud bool) {
	var record map[string]any
	if json.Unmarshal(line, &record) != nil {
		return output.OneLine(string(line)), true
	}
	level, err := zerolog.ParseLevel(fmt.Sprint(record["level"]))
	if err != nil || level < zerolog.WarnLevel {
		return "", false
	}
	parts := []string{level.String() + ":", fmt.Sprint(record["message"])}
	for _, key := range slices.Sorted(maps.Keys(record)) {
		if key != "level" && key != "message" && key != "time" {
			parts = append(parts, fmt.Sprintf("%s=%v", key, record[key]))
		}
	}
	return output.OneLine(strings.Join(parts, " ")), true
}

// lastLines returns the end of a child's log, for a start that did not succeed.
func (c *child) lastLines(n int) string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func childLog(dir, name string) string { return filepath.Join(dir, "log", name+".log") }
