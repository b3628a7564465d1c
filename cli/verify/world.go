package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/sdk"
)

// killedWithin is how long a killed worker is waited for: its output, and the end of what it has left.
const killedWithin = 10 * time.Second

// world is some steps of a training, by so many workers.
type world struct {
	size       int
	begin, end int    // the first step, and the one after the last
	dir        string // of its own
	from       *saved // what it resumes from; nil: nothing
	rescaled   bool   // of the rescaled training
	python     string // the PYTHONPATH

	began, ended time.Time
}

// run trains a world and returns what it has saved.
func (w *world) run(ctx context.Context, o *Options) (*saved, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit,
		fmt.Errorf("it has not trained steps %d to %d within %s: allow it more with --limit, or let each world train fewer steps with --steps-each", w.begin, w.end-1, o.Limit))
	defer cancel()
	if err := os.MkdirAll(filepath.Join(w.dir, "seen"), 0o755); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(w.checkpoints(), 0o755); err != nil {
		return nil, err
	}
	host, err := listen(filepath.Join(w.dir, "w.sock"), w.end-1)
	if err != nil {
		return nil, err
	}
	defer host.close()
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	ended := make(chan outcome, w.size)
	started, err := w.start(ctx, o, port, ended)
	if err != nil {
		cancel()
	}
	good := make([]bool, w.size)
	for range started {
		o := <-ended
		good[o.rank] = o.err == nil && ctx.Err() == nil
		if o.err != nil {
			err = cmp.Or(err, o.err)
			cancel() // the others would wait for it
		}
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		if taken := unlike(w.batches(good)); taken != "" {
			err = fmt.Errorf("%s; then: %w", taken, err)
		}
		return nil, fmt.Errorf("%s from step %d: %w", units.Count(w.size, "worker"), w.begin, err)
	}
	return host.result(w)
}

// start starts the workers, each as a process of its own. How many it has started counts also with an error.
func (w *world) start(ctx context.Context, o *Options, port int, ended chan<- outcome) (started int, err error) {
	for ; started < w.size; started++ {
		if err = w.worker(ctx, o, started, w.variables(o, started, port), ended); err != nil {
			return started, err
		}
	}
	return started, nil
}

// log is where a worker prints.
func (w *world) log(rank int) string { return filepath.Join(w.dir, fmt.Sprintf("rank-%d.log", rank)) }

// outcome is how a worker has ended.
type outcome struct {
	rank int
	err  error
}

// checkpoints is where it saves.
func (w *world) checkpoints() string { return filepath.Join(w.dir, "checkpoint") }

// worker starts one process; how it ends is sent to the channel.
func (w *world) worker(ctx context.Context, o *Options, rank int, env []string, ended chan<- outcome) error {
	log, err := os.Create(w.log(rank))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, o.Command[0], o.Command[1:]...) //nolint:gosec // the user's own command
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	// A session and a group of its own, which is killed whole: a script may have started loaders.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killedWithin
	if err := cmd.Start(); err != nil {
		_ = log.Close() // nothing was written
		return fmt.Errorf("start %s: %w", o.Command[0], err)
	}
	go func() {
		defer log.Close()
		err := cmd.Wait()
		ended <- w.outcome(ctx, rank, cmp.Or(err, endGroup(cmd.Process.Pid)))
	}()
	return nil
}

// outcome is that of a worker that has ended so.
func (w *world) outcome(ctx context.Context, rank int, err error) outcome {
	if err != nil && ctx.Err() == nil {
		said := tail(w.log(rank))
		err = fmt.Errorf("rank %d: %w%s\n%s", rank, err, hint(err, said), said)
	}
	return outcome{rank, err}
}

// hints are what else to say of a worker that failed, by words of its output.
var hints = []struct{ words, hint string }{
	{"size mismatch for ", otherModel},
	{"Missing key(s) in state_dict", otherModel},
	{"Unexpected key(s) in state_dict", otherModel},
	{"Connection closed by peer", leftAlone},
	{"Connection reset by peer", leftAlone},
}

const (
	otherModel = ": the checkpoint is of another model: does the model that the script makes depend on the number of workers? Make the same one in all worlds"
	leftAlone  = ": another rank has left: if it has ended, ranks take unlike numbers of batches: take those of bellows.Batches or bellows.MicroBatches, as many on every rank, and leave the loop by bellows.should_stop"
)

// hint is what is known of a failure, with the remedy; empty: nothing is.
func hint(err error, said string) string {
	if signalOf(err) == syscall.SIGTERM {
		return ": it ended of the SIGTERM that asks it to save: handle it, save into $BELLOWS_CHECKPOINT_DIR and exit with status 0, or import bellows (docs/recipes.md)"
	}
	for _, h := range hints {
		if strings.Contains(said, h.words) {
			return h.hint
		}
	}
	return ""
}

// signalOf is the signal that a worker has ended of; 0: it has left by itself.
func signalOf(err error) syscall.Signal {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return s.Signal()
		}
	}
	return 0
}

// variables is a worker's environment, as agents make it.
func (w *world) variables(o *Options, rank, port int) []string {
	nodes := min(o.Nodes, w.size)
	each := w.size / nodes
	node, local := rank/each, strconv.Itoa(each)
	own := map[string]string{
		"RANK": strconv.Itoa(rank), "LOCAL_RANK": strconv.Itoa(rank % each), "GROUP_RANK": strconv.Itoa(node),
		"WORLD_SIZE": strconv.Itoa(w.size), "LOCAL_WORLD_SIZE": local,
		"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": strconv.Itoa(port), "PYTHONUNBUFFERED": "1", "PYTHONPATH": w.python,
		"TORCHELASTIC_RUN_ID": "verify", "TORCHELASTIC_RESTART_COUNT": "0",
		"BELLOWS_JOB": "verify", "BELLOWS_NODE": "verify" + strconv.Itoa(node), "BELLOWS_GENERATION": "1",
		"BELLOWS_DEVICE": "SIM-" + strconv.Itoa(rank), "BELLOWS_DEVICES": strconv.Itoa(w.size), "BELLOWS_LOCAL_DEVICES": local,
		"BELLOWS_BATCH_SIZE": strconv.Itoa(o.BatchSize), "BELLOWS_BASE_BATCH_SIZE": strconv.Itoa(o.BatchSize),
		"BELLOWS_MICRO_BATCH": strconv.Itoa(o.MicroBatch), "BELLOWS_LOGICAL_WORKERS": strconv.Itoa(o.LogicalWorkers),
		"BELLOWS_CHECKPOINT_DIR": w.checkpoints(), "BELLOWS_WORKER_SOCKET": filepath.Join(w.dir, "w.sock"),
		"BELLOWS_VERIFY":            filepath.Join(w.dir, "seen"),
		"BELLOWS_VERIFY_STOP_AFTER": strconv.Itoa(w.end - 1),
		"BELLOWS_RESUME_FROM":       "", "BELLOWS_RESUME_STEP": "0", "BELLOWS_RESUME_SAMPLES": "0",
	}
	if s := w.from; s != nil {
		own["BELLOWS_RESUME_FROM"], own["BELLOWS_RESUME_STEP"], own["BELLOWS_RESUME_SAMPLES"] = s.Dir, strconv.Itoa(s.Step), ""
		if s.Samples >= 0 {
			own["BELLOWS_RESUME_SAMPLES"] = strconv.Itoa(s.Samples)
		}
	}
	if !o.GPUs {
		own["CUDA_VISIBLE_DEVICES"] = ""
	}
	if os.Getenv("OMP_NUM_THREADS") == "" {
		own["OMP_NUM_THREADS"] = "1" // sums are in another order with another number of threads
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, ours := own[name]
		return ours || strings.HasPrefix(name, "BELLOWS_")
	})
	for name, value := range own {
		env = append(env, name+"="+value)
	}
	return env
}

// python writes the module and its hooks into a folder, and returns the PYTHONPATH with it: a folder of the user's
// alone, for what lies in it runs in all workers.
func python(dir string) (string, error) {
	if strings.Contains(dir, ":") {
		return "", fmt.Errorf("write the module into %s: PYTHONPATH is cut at colons: set TMPDIR to a directory without one", dir)
	}
	for name, source := range map[string][]byte{sdk.FileName: sdk.Module, sdk.HooksFileName: sdk.Hooks, sdk.SiteFileName: sdk.Site} {
		if err := os.WriteFile(filepath.Join(dir, name), source, 0o600); err != nil {
			return "", err
		}
	}
	if rest := os.Getenv("PYTHONPATH"); rest != "" {
		dir += ":" + rest // as the user has it, empty parts too
	}
	return dir, nil
}

// Where the workers of a world meet. Rank 0 listens seconds after the port was chosen: one that the kernel
// gives out by itself, from 32768 on, may be another process's by then.
const firstPort, ports = 20_000, 9_400 // an agent's own begin at 29400

// freePort returns a port on which nothing listens now, on any address.
func freePort(ctx context.Context) (int, error) {
	var (
		config net.ListenConfig
		taken  error
	)
	for range 100 {
		port := firstPort + rand.IntN(ports) //nolint:gosec // no secret
		var l net.Listener
		if l, taken = config.Listen(ctx, "tcp", ":"+strconv.Itoa(port)); taken == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a port for the workers to meet, of %d to %d: %w", firstPort, firstPort+ports-1, taken)
}

// tailBytes and tailLines bound what of a failed worker's output is shown.
const (
	tailBytes = 8 << 10
	tailLines = 12
)

// tail is the end of what a worker has printed.
func tail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if _, err = f.Seek(-tailBytes, io.SeekEnd); err != nil { // it is shorter
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
