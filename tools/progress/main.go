package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// quiet is how long no line may be printed before the running tests are named.
const quiet = time.Minute

func main() {
	if os.Getenv(keptVariable) == "" {
		os.Exit(keep(os.Args[1:]))
	}
	// An interrupt reaches the go command as well, which is in the same process
	// group or is sent one: this program stays to say what came of it. It does not ignore the
	// signal, for then the go command would, too.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt)
	os.Exit(run(ctx, os.Args[1:], os.Stdout))
}

// run is the command, and returns its exit status. The context ends with an interrupt.
func run(ctx context.Context, args []string, out io.Writer) int {
	all := tiers()
	names := strings.Join(slices.Sorted(maps.Keys(all)), "|")
	flags := flag.NewFlagSet("progress", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: go run ./tools/progress [flags] %s\n", names)
		flags.PrintDefaults()
	}
	slow := flags.Duration("slow", 3*time.Second, "print a line for each test that took so long")
	if flags.Parse(args) != nil {
		return 2
	}
	steps, known := all[flags.Arg(0)]
	if !known || flags.NArg() != 1 {
		flags.Usage()
		return 2
	}
	report := newReport(out, *slow, time.Now())
	passed := report.run(ctx, steps)
	report.summary(time.Now())
	if !passed {
		return 1
	}
	return 0
}

// run runs the steps and reports whether all have passed. After an interrupt no step begins and nothing is repeated. What
// failed in steps that repeat is repeated when all steps have ended: alone.
func (r *report) run(ctx context.Context, steps []step) bool {
	begun := make([]*begunStep, 0, len(steps))
	for _, s := range steps {
		b := s.begin(ctx, r)
		if begun = append(begun, b); !s.beside {
			<-b.done
		}
	}
	r.wait(begun)
	passed := true
	for _, b := range begun {
		if b.err != nil && b.repeats && ctx.Err() == nil {
			b.report.out = r.out
			b.err = b.repeat(b.report, b.err, func(s step, f failure, out io.Writer) error { return runAlone(ctx, s, f, out) })
		}
		if b.err != nil {
			b.report.stepFailed(b.step, b.err)
			passed = false
		}
		r.take(b.report)
	}
	return passed
}

// wait waits until all steps have ended, and says each minute what those do that have not.
func (r *report) wait(steps []*begunStep) {
	ticker := time.NewTicker(quiet)
	defer ticker.Stop()
	for _, b := range steps {
		for ended := false; !ended; {
			select {
			case <-b.done:
				ended = true
			case now := <-ticker.C:
				r.sayRunning(steps, now)
			}
		}
	}
}

// sayRunning names the tests that run in steps that have not ended.
func (r *report) sayRunning(steps []*begunStep, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range steps {
		select {
		case <-b.done:
		default:
			r.printf("... %s: %s:%s\n", now.Sub(r.began).Round(time.Second), b.what, b.report.named(now))
		}
	}
}

// A begunStep is a step that run has started, or that an interrupt kept from starting. The output of one that runs beside
// others is held back until it has ended.
type begunStep struct {
	step

	report *report // its own
	err    error
	done   chan struct{} // closed when it has ended
}

// begin begins the step, unless there was an interrupt.
func (s step) begin(ctx context.Context, r *report) *begunStep {
	b := &begunStep{step: s, done: make(chan struct{})}
	var output bytes.Buffer
	if b.report = r.forStep(s, r.out); s.beside {
		b.report.out = &output
	}
	if b.err = ctx.Err(); b.err != nil {
		close(b.done)
		return b
	}
	go func() {
		defer close(b.done)
		b.err = s.run(ctx, b.report)
		r.mu.Lock()
		defer r.mu.Unlock()
		_, _ = output.WriteTo(r.out)
	}()
	return b
}

// command is the step's, with other arguments.
func (s step) command(ctx context.Context, args ...string) *exec.Cmd {
	words := append([]string{cmp.Or(s.program, "go")}, args...)
	if !s.spare {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Env = append(os.Environ(), s.env...)
		return cmd
	}
	// The scheduler shares processors out among sessions first, where it has autogroups, and within each by its processes' niceness.
	words = append([]string{"sh", "-c", `(echo 19 >/proc/self/autogroup) 2>/dev/null; exec nice -n 19 "$@"`, "sh"}, words...)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGINT) } // the keeper's reaches this process's group only
	cmd.Env = append(os.Environ(), s.env...)
	return cmd
}

// run runs the step. Tests are reported to r; the output of other commands goes out as it is.
func (s step) run(ctx context.Context, r *report) error {
	r.say("== %s\n", s.what)
	if s.args[0] != "test" {
		cmd := s.command(ctx, s.args...)
		cmd.Stdout, cmd.Stderr = r, r
		err := cmd.Run()
		r.spend(s, cmd)
		return err
	}
	cmd := s.command(ctx, append([]string{"test", "-json"}, s.args[1:]...)...)
	cmd.Stderr = r
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err = cmd.Start(); err != nil {
		return err
	}
	read(r, events, !s.beside)
	err = cmd.Wait()
	r.spend(s, cmd)
	return err
}

// spend adds the processor time of a command that has ended, with that of all that it has waited for.
func (r *report) spend(s step, cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		return // it was not started
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.say("== %s: %d s of processor time\n", s.what, int(used.Seconds()))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spent += used
}

// read hands over events until there are no more. Each minute without a line has r name the running tests, if ticks is true.
func read(r *report, events io.Reader, ticks bool) {
	var (
		wg    sync.WaitGroup
		ended = make(chan struct{})
	)
	if ticks {
		wg.Go(func() {
			ticker := time.NewTicker(quiet / 4)
			defer ticker.Stop()
			for {
				select {
				case <-ended:
					return
				case now := <-ticker.C:
					r.mu.Lock()
					r.tick(now)
					r.mu.Unlock()
				}
			}
		})
	}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.mu.Lock()
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.add(e)
			} else {
				r.stray(string(line))
			}
			r.mu.Unlock()
		}
		if err != nil {
			break
		}
	}
	close(ended)
	wg.Wait()
}
