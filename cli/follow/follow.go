package follow

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/render"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/units"
)

// logsGrace is how long the last lines may take once the job has ended.
const logsGrace = 5 * time.Second

// follower shows a job while it runs.
type follower struct {
	client *api.Client
	job    string
	out    io.Writer
	msg    io.Writer
	style  output.Style // of out
	story  render.Story

	statuses chan api.JobStatus
	lines    chan api.LogLine
	failures chan error // of the watch: nothing more will be known
	logsDone chan struct{}
	answers  chan string // to the question after Ctrl-C
	asking   bool
	stopping bool // the job has been asked to stop
	unshown  int  // lines that could not be written, say for a full disk
}

// Job shows the job until it has ended, or its watcher detaches.
func Job(ctx context.Context, client *api.Client, job string) error {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{
		client: client, job: job, out: os.Stdout, msg: os.Stderr, style: output.StyleOf(os.Stdout),
		story:    render.Story{Style: output.StyleOf(os.Stderr), Zone: time.Local},
		statuses: make(chan api.JobStatus), lines: make(chan api.LogLine), failures: make(chan error, 1),
		logsDone: make(chan struct{}), answers: make(chan string, 1),
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	var wg sync.WaitGroup
	wg.Go(func() { f.watch(ctx) })
	wg.Go(func() { defer close(f.logsDone); f.readLogs(ctx) })
	defer wg.Wait()
	defer cancel()
	return f.loop(ctx, signals)
}

func (f *follower) loop(ctx context.Context, signals <-chan os.Signal) error {
	for {
		select {
		case status := <-f.statuses:
			f.stopping = f.stopping || status.Stopping
			for _, line := range f.story.Tell(status, time.Now()) {
				fmt.Fprintln(f.msg, line)
			}
			if status.Ended {
				f.drainLogs()
				return f.end(status)
			}
		case line := <-f.lines:
			f.show(line)
		case err := <-f.failures:
			return err
		case answer := <-f.answers:
			f.asking = false
			if done, err := f.answered(ctx, answer); done {
				return err
			}
		case s := <-signals:
			if done, err := f.signalled(s); done {
				return err
			}
		}
	}
}

// drainLogs shows the last lines of a job that has ended.
func (f *follower) drainLogs() {
	late := time.After(logsGrace)
	for {
		select {
		case line := <-f.lines:
			f.show(line)
		case <-f.logsDone:
			return
		case <-late:
			fmt.Fprintf(f.msg, "the end of the log is not here yet: see bellows logs %s\n", f.job)
			return
		}
	}
}

func (f *follower) end(status api.JobStatus) error {
	for _, line := range f.story.Ending(status) {
		fmt.Fprintln(f.msg, line)
	}
	if f.unshown > 0 {
		fmt.Fprintf(f.msg, "%s could not be written here: bellows logs %s\n", units.Count(f.unshown, "line"), f.job)
	}
	switch {
	case status.ExitCode != nil && *status.ExitCode != 0:
		return fault.Exit(*status.ExitCode)
	case status.Phase == cluster.Stopped:
		return fault.Exit(1) // its workers ended well, and what comes after it must not begin: it is not done
	}
	return nil
}

func (f *follower) show(line api.LogLine) {
	if line.Notice != "" {
		fmt.Fprintln(f.msg, f.story.Note(output.OneLine(line.Notice)))
		return
	}
	if _, err := fmt.Fprintln(f.out, render.Prefixed(line, f.style)); err != nil {
		if f.unshown++; f.unshown == 1 { // the job, whose logs its nodes keep, goes on
			fmt.Fprintln(f.msg, f.story.Note(fmt.Sprintf("%v: lines are missing here; bellows logs %s has them", err, f.job)))
		}
	}
}

// signalled decides what a signal does; done means that following ends.
func (f *follower) signalled(s os.Signal) (done bool, err error) {
	switch s {
	case syscall.SIGHUP:
		return true, nil
	case syscall.SIGTERM:
		f.detached()
		return true, fault.Exit(128 + int(syscall.SIGTERM))
	}
	_, canAsk := output.TerminalWidth(os.Stdin)
	if f.asking || f.stopping || !canAsk { // a second question might cut short a save that takes long
		f.detached()
		return true, fault.Exit(128 + int(syscall.SIGINT))
	}
	f.asking = true
	fmt.Fprint(f.msg, "\nstop the job? [s]top, [d]etach, Enter = go on: ")
	go f.ask() // ends with the next line, or with the program: a read of a terminal cannot be called off
	return false, nil
}

func (f *follower) ask() {
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && answer == "" {
		answer = "d"
	}
	f.answers <- answer
}

func (f *follower) answered(ctx context.Context, answer string) (done bool, err error) {
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "":
		fmt.Fprintln(f.msg, "going on")
		return false, nil
	case "d", "detach":
		f.detached()
		return true, nil
	case "s", "stop":
		reply, err := ask.Stop(ctx, f.client, f.job, false)
		if err != nil {
			fmt.Fprintln(f.msg, "stop: "+output.Plain(err.Error()))
			return false, nil
		}
		f.stopping = true
		fmt.Fprintln(f.msg, f.story.Note(render.Stop(reply, false, f.story.Zone)+"; Ctrl-C detaches"))
		return false, nil
	}
	fmt.Fprintln(f.msg, "neither s nor d: going on")
	return false, nil
}

func (f *follower) detached() {
	if f.stopping {
		fmt.Fprintf(f.msg, "\ndetached; the job saves and stops by itself: bellows show %s\n", f.job)
		return
	}
	fmt.Fprintf(f.msg, "\ndetached; the job goes on: bellows logs -f %s, bellows stop %s\n", f.job, f.job)
}

// watch sends each new status, across restarts of the agent.
func (f *follower) watch(ctx context.Context) {
	err := ask.Again(ctx, func(heard func()) error {
		return f.client.Watch(ctx, f.job, func(s api.JobStatus) error {
			heard()
			select {
			case f.statuses <- s:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	if err != nil && ctx.Err() == nil {
		f.failures <- err
	}
}

// readLogs sends each line once, across restarts of the agent.
func (f *follower) readLogs(ctx context.Context) {
	err := ask.FollowLogs(ctx, f.client, f.job, api.LogQuery{}, func(line api.LogLine) error {
		select {
		case f.lines <- line:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	select {
	case f.lines <- api.LogLine{Rank: -1, Notice: "the log cannot be followed any more: " + err.Error()}:
	case <-ctx.Done():
	}
}
