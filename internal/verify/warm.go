package verify

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bellows-ml/bellows/internal/pycommand"
)

// Importing is nearly all that a world takes. The first one's workers are processes of their own, and what they import
// is noted; those of the others are forked by a process that has imported it, as with warm starts of jobs (ADR 50).

// maxAttempts bounds how often that process is started anew without what it has found not to be for it.
const maxAttempts = 6

// launcherFD is the launcher's end of the socket between it and us.
const launcherFD = 3

// notForLaunchers are modules that are the interpreter's or the world's own.
var notForLaunchers = []string{
	"__main__", "__mp_main__", "bellows", "bellows_launcher", "bellows_verify", "bellows_verify_launch", "site", "sitecustomize", "usercustomize",
}

// launcher forks the workers of a world at a time. Its process dies with us, and its workers with it.
type launcher struct {
	cmd   *exec.Cmd
	conn  *os.File
	lines *bufio.Reader
	gone  bool // it has ended, or refuses
}

func (l *launcher) alive() bool { return l != nil && !l.gone }

// launcherOrder is what it is told first.
type launcherOrder struct {
	Modules  []string          `json:"modules"`
	Avoid    []string          `json:"avoid"`
	Planned  []string          `json:"planned"`
	Env      map[string]string `json:"env"`
	Script   string            `json:"script"`
	IsModule bool              `json:"is_module"`
	Args     []string          `json:"args"`
	Program  string            `json:"program"`
	Comm     string            `json:"comm"`
}

// workerOrder is what it is told of one worker.
type workerOrder struct {
	Log string            `json:"log"`
	Env map[string]string `json:"env"`
}

// launcherWord is what it says.
type launcherWord struct {
	Ready  bool              `json:"ready"`
	Cold   string            `json:"cold"`  // why it forks nothing
	Again  map[string]string `json:"again"` // modules that it must not import, and why
	Born   []int             `json:"born"`  // by rank
	Rank   int               `json:"rank"`
	Exit   int               `json:"exit"`
	Signal int               `json:"signal"`
}

// prepare starts a launcher for a command that a world has been trained with, of which the names of imported modules
// are in a file. The error says why there is none.
func prepare(ctx context.Context, o *Options, like *world, python string) (*launcher, error) {
	command := pycommand.Parse(o.Command)
	if command.Cold != "" {
		return nil, errors.New(command.Cold)
	}
	names, err := os.ReadFile(like.modules())
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath(command.Head[0])
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	env, planned := lasting(like.variables(o, 0, 0))
	env["PYTHONPATH"] = python
	order := launcherOrder{
		Modules: strings.Fields(string(names)), Avoid: slices.Clone(notForLaunchers), Planned: planned, Env: env,
		Script: command.Script, IsModule: command.IsModule, Args: append([]string{}, command.Args...), Program: program,
	}
	order.Modules = slices.DeleteFunc(order.Modules, func(name string) bool { return slices.Contains(notForLaunchers, name) })
	for range maxAttempts {
		l, again, err := launch(within, command.Head, order, filepath.Join(like.dir, "launcher.log"))
		switch {
		case err != nil && within.Err() != nil:
			return nil, fmt.Errorf("importing what the script imports has taken longer than %s (--limit)", o.Limit)
		case err != nil || l != nil:
			return l, err
		}
		for name := range again {
			order.Avoid = append(order.Avoid, name)
		}
	}
	return nil, fmt.Errorf("there were modules to leave out in each of %d attempts", maxAttempts)
}

// lasting is what of a worker's variables is the same in all worlds, and the names of the others.
func lasting(variables []string) (env map[string]string, planned []string) {
	env = map[string]string{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(ofWorlds, name) {
			planned = append(planned, name)
			continue
		}
		env[name] = value
	}
	return env, planned
}

// ofWorlds are the variables that each world, or each of its workers, has its own of.
var ofWorlds = []string{
	"RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "BELLOWS_NODE", "BELLOWS_DEVICE", "BELLOWS_DEVICES",
	"BELLOWS_LOCAL_DEVICES", "BELLOWS_CHECKPOINT_DIR", "BELLOWS_WORKER_SOCKET", "BELLOWS_VERIFY", "BELLOWS_VERIFY_STOP_AFTER", "BELLOWS_RESUME_FROM",
	"BELLOWS_RESUME_STEP", "BELLOWS_RESUME_SAMPLES",
}

// launch starts a process and has it import. It returns the process if it is ready, else modules to leave out, or why it is of no use.
func launch(ctx context.Context, head []string, order launcherOrder, log string) (l *launcher, again map[string]string, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "launcher"), os.NewFile(uintptr(pair[1]), "launcher's end")
	out, err := os.Create(log)
	if err != nil {
		return nil, nil, errors.Join(err, mine.Close(), theirs.Close())
	}
	defer out.Close()
	code := fmt.Sprintf("import bellows_verify_launch; bellows_verify_launch.main(%d)", launcherFD)
	// It outlives what asks for it; what it is asked is given up with that.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), head[0], append(slices.Clone(head[1:]), "-c", code)...) //nolint:gosec // the user's own interpreter
	for name, value := range order.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.WaitDelay = out, out, []*os.File{theirs}, killedWithin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	if err = errors.Join(err, theirs.Close()); err != nil { // with that end open here, its death would not be heard
		return nil, nil, errors.Join(err, mine.Close())
	}
	l = &launcher{cmd: cmd, conn: mine, lines: bufio.NewReader(mine)}
	word, err := l.ask(ctx, order)
	if err == nil && word.Ready {
		return l, nil, nil
	}
	l.close()
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace([]byte(tail(log))))
	case word.Cold != "":
		return nil, nil, errors.New(word.Cold)
	}
	return nil, word.Again, nil
}

// ask tells the launcher something, and takes its first answer in; the launcher ends with the context.
func (l *launcher) ask(ctx context.Context, order any) (word launcherWord, err error) {
	stop := context.AfterFunc(ctx, func() { _ = l.cmd.Process.Kill() }) // it may have ended
	defer stop()
	b, err := json.Marshal(order)
	if err != nil {
		return word, err
	}
	if _, err = l.conn.Write(append(b, '\n')); err != nil {
		return word, err
	}
	return l.hear()
}

// errLauncher says that the launcher has ended.
var errLauncher = errors.New("the process that had imported what the script imports has ended")

func (l *launcher) hear() (word launcherWord, err error) {
	line, err := l.lines.ReadBytes('\n')
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return word, errLauncher
	} else if err != nil {
		return word, err
	}
	return word, json.Unmarshal(line, &word)
}

// close ends the process; it has no workers, or they end with it.
func (l *launcher) close() {
	if l == nil {
		return
	}
	_ = l.conn.Close()
	_ = l.cmd.Process.Kill() // it may have ended
	_ = l.cmd.Wait()         // by that signal
}

// fork has a world's workers forked; how each ends is sent to the channel. With an error none runs the script.
func (l *launcher) fork(ctx context.Context, w *world, workers []workerOrder, ended chan<- outcome) error {
	word, err := l.ask(ctx, map[string]any{"workers": workers})
	if err == nil && word.Cold != "" {
		err = errors.New(word.Cold)
	}
	if err == nil {
		err = checkBorn(word.Born, len(workers))
	}
	if err != nil {
		l.gone = true
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		for _, pid := range word.Born {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // those that have ended are gone with all that they had left
		}
	})
	go func() {
		defer stop()
		open := map[int]bool{}
		for rank := range workers {
			open[rank] = true
		}
		for len(open) > 0 {
			end, err := l.hear()
			if err == nil && !open[end.Rank] {
				err = fmt.Errorf("its launcher tells of the end of rank %d, which has not begun or has ended before", end.Rank)
			}
			if err != nil {
				for rank := range open {
					left := endGroup(word.Born[rank]) // the workers have ended with the launcher, not what they have started
					ended <- outcome{rank, errors.Join(fmt.Errorf("rank %d: %w: --cold-start does without it", rank, err), left)}
				}
				return
			}
			delete(open, end.Rank)
			how := exited{end.Exit, syscall.Signal(end.Signal)}.err()
			ended <- w.outcome(ctx, end.Rank, cmp.Or(how, endGroup(word.Born[end.Rank])))
		}
	}()
	return nil
}

// checkBorn demands one process of each worker. Their groups are killed: to a signal 0 is the caller's group, and 1 all processes.
func checkBorn(pids []int, workers int) error {
	if len(pids) != workers || slices.ContainsFunc(pids, func(pid int) bool { return pid <= 1 }) {
		return fmt.Errorf("the launcher has forked processes %v for %d workers: --cold-start does without it", pids, workers)
	}
	return nil
}

// exited is how a forked worker has ended.
type exited struct {
	status int
	signal syscall.Signal // 0: it has left by itself
}

func (e exited) err() error {
	if e.status == 0 && e.signal == 0 {
		return nil
	}
	return e
}

func (e exited) Error() string {
	if e.signal != 0 {
		return "signal: " + e.signal.String()
	}
	return fmt.Sprintf("exit status %d", e.status)
}
