package main

import (
	"bufio"
	"bytes"
	"cmp"
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
	"time"
)

// quiet is how long no line may be printed before the running tests are named.
const quiet = time.Minute

func main() {
	if os.Getenv(keptVariable) == "" {
		os.Exit(keep(os.Args[1:]))
	}
	// An interrupt reaches the go command as well, which is in the same process
	// group: this program stays to say what came of it. It does not ignore the
	// signal, for then the go command would, too.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	os.Exit(run(os.Args[1:], os.Stdout))
}

// run is the command, and returns its exit status.
func run(args []string, out io.Writer) int {
	all := tiers()
	names := strings.Join(slices.Sorted(maps.Keys(all)), "|")
	flags := flag.NewFlagSet("progress", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: go run ./internal/progress [flags] %s\n", names)
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
	passed := report.run(steps)
	report.summary(time.Now())
	if !passed {
		return 1
	}
	return 0
}

// run runs the steps and reports whether all have passed.
func (r *report) run(steps []step) bool {
	var beside []*besideStep
	passed := true
	ended := func(s step, err error) {
		if err != nil {
			r.stepFailed(s, err)
			passed = false
		}
	}
	for _, s := range steps {
		if s.beside {
			beside = append(beside, s.start())
			continue
		}
		ended(s, s.run(r, r.out))
		beside = slices.DeleteFunc(beside, func(b *besideStep) bool {
			select {
			case <-b.done:
				ended(b.step, b.print(r.out))
				return true
			default:
				return false
			}
		})
	}
	for _, b := range beside {
		<-b.done
		ended(b.step, b.print(r.out))
	}
	return passed
}

// A besideStep runs while others do.
type besideStep struct {
	step
	output bytes.Buffer
	err    error
	done   chan struct{} // closed when it has ended
}

func (s step) start() *besideStep {
	b := &besideStep{step: s, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.err = s.command(&b.output).Run()
	}()
	return b
}

// print prints what the step has printed, once it has ended, and returns its error.
func (b *besideStep) print(out io.Writer) error {
	fmt.Fprintf(out, "== %s\n%s", b.what, b.output.Bytes())
	return b.err
}

// command is the step's, with its output to out.
func (s step) command(out io.Writer) *exec.Cmd {
	cmd := exec.Command(cmp.Or(s.program, "go"), s.args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, append(os.Environ(), s.env...)
	return cmd
}

// run runs the step. Tests are reported to r; the output of other commands goes to out as it is.
func (s step) run(r *report, out io.Writer) error {
	fmt.Fprintf(out, "== %s\n", s.what)
	if s.args[0] != "test" {
		return s.command(out).Run()
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, s.args[1:]...)...)
	cmd.Stderr, cmd.Env = out, append(os.Environ(), s.env...)
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err = cmd.Start(); err != nil {
		return err
	}
	r.begin(s.every)
	read(r, events)
	err = cmd.Wait()
	if err != nil && s.repeats {
		err = s.repeat(r, out, err, runAlone)
	}
	return err
}

// read hands over events until there are no more, and each minute without a line has r name the running tests.
func read(r *report, events io.Reader) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		ended = make(chan struct{})
	)
	wg.Go(func() {
		ticker := time.NewTicker(quiet / 4)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case now := <-ticker.C:
				mu.Lock()
				r.tick(now)
				mu.Unlock()
			}
		}
	})
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			mu.Lock()
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.add(e)
			} else {
				r.stray(string(line))
			}
			mu.Unlock()
		}
		if err != nil {
			break
		}
	}
	close(ended)
	wg.Wait()
}
