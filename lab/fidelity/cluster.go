package fidelity

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/api"
)

//go:embed train.py
var script []byte

// trained is what a cluster of real processes made of a mix.
type trained struct {
	completion []time.Duration // by job
	rescales   int
	costs      []cost
}

// cost is how long a world of so many workers did not train because it had to start.
type cost struct {
	workers int
	took    time.Duration
}

// generation is a note of train.py's, of one world. Times are in seconds since the epoch.
type generation struct {
	Generation uint64  `json:"generation"`
	Workers    int     `json:"workers"`
	Booted     float64 `json:"booted"` // when rank 0's process was made
	First      float64 `json:"first"`  // when its first step began
	Steps      int     `json:"steps"`
}

// cluster is a `bellows dev` under way.
type cluster struct {
	o       *Options
	dir     string
	socket  string
	process *exec.Cmd
	ended   chan error
	client  *api.Client
}

// endsWithin bounds how long `bellows dev` may take to halt its jobs and end.
const endsWithin = 30 * time.Second

// start runs a cluster with a policy until its nodes are there.
func start(ctx context.Context, o *Options, policy string) (c *cluster, err error) {
	dir, err := os.MkdirTemp("", "bellows-fidelity-")
	if err != nil {
		return nil, err
	}
	c = &cluster{o: o, dir: dir, socket: filepath.Join(dir, "s.sock"), ended: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = cmp.Or(c.close(), err)
		}
	}()
	if err = os.WriteFile(filepath.Join(dir, "train.py"), script, 0o644); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "dev.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.process = exec.Command(o.Program, "dev", "--data-dir", filepath.Join(dir, "dev"), "--socket", c.socket, "--policy", policy,
		"--nodes", strconv.Itoa(o.Nodes), "--devices-per-node", strconv.Itoa(o.DevicesPerNode), "--interval", o.Interval.String())
	c.process.Stdout, c.process.Stderr = log, log
	// Its own group, so that a terminal's Ctrl-C comes to it from here alone; and it does not outlive this process.
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel signals the child when the thread that made it ends
		defer runtime.UnlockOSThread()
		err := c.process.Start()
		started <- err
		if err == nil {
			c.ended <- c.process.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	c.client = api.NewClient(c.socket)
	return c, c.whole(ctx)
}

// whole waits until all nodes are there and a coordinator leads.
func (c *cluster) whole(ctx context.Context) error {
	return c.poll(ctx, time.Minute, "the cluster has not come up", func() (bool, error) {
		// An error here is of an agent that has not begun to answer.
		if status, err := c.client.Status(ctx); err != nil || status.Leader == "" {
			return false, nil //nolint:nilerr // it is asked again
		}
		nodes, err := c.client.Nodes(ctx)
		return err == nil && len(nodes) == c.o.Nodes && !slices.ContainsFunc(nodes, func(n api.NodeStatus) bool { return !n.Alive }), nil
	})
}

// poll asks until the answer is yes.
func (c *cluster) poll(ctx context.Context, within time.Duration, fault string, ask func() (bool, error)) error {
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-c.ended:
			c.ended <- err
			return fmt.Errorf("bellows dev has ended (%w): %s", err, c.said())
		case <-limit.C:
			return fmt.Errorf("%s within %v: %s", fault, within, c.said())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// said is the end of what bellows dev has printed.
func (c *cluster) said() string {
	log, err := os.ReadFile(filepath.Join(c.dir, "dev.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// close ends the cluster and takes its folder away.
func (c *cluster) close() error {
	if c.process != nil && c.process.Process != nil {
		_ = c.process.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-c.ended: //nolint:errcheck // it was told to end
		case <-time.After(endsWithin):
			return fmt.Errorf("bellows dev (pid %d) has not ended within %v: its folder %s stays", c.process.Process.Pid, endsWithin, c.dir)
		}
	}
	return os.RemoveAll(c.dir)
}

// train runs a mix to its end.
func (c *cluster) train(ctx context.Context, m Mix) (r trained, err error) {
	begin := time.Now()
	ids := make([]string, len(m.Jobs))
	for i, j := range m.Jobs {
		if err = sleep(ctx, time.Until(begin.Add(j.At))); err != nil {
			return trained{}, err
		}
		if ids[i], err = c.submit(ctx, j); err != nil {
			return trained{}, err
		}
	}
	jobs := make([]api.JobStatus, len(ids))
	err = c.poll(ctx, c.o.Limit, "the jobs have not ended", func() (bool, error) {
		for i, id := range ids {
			if jobs[i].Ended {
				continue
			}
			status, fault := c.client.Job(ctx, id)
			if fault != nil {
				return false, fault
			}
			if jobs[i] = status; !status.Ended {
				return false, nil
			}
			if status.Phase != "succeeded" {
				return false, fmt.Errorf("job %s has %s: %s", m.Jobs[i].Name, status.Phase, status.Reason)
			}
		}
		return true, nil
	})
	if err != nil {
		return trained{}, err
	}
	for i, status := range jobs {
		r.completion = append(r.completion, status.Since.Sub(status.SubmittedAt))
		worlds, err := c.noted(m.Jobs[i])
		if err != nil {
			return trained{}, err
		}
		r.rescales += len(worlds) - 1
		r.costs = append(r.costs, costs(worlds, status)...)
	}
	return r, nil
}

// submit has the command line submit a job, as its owner would.
func (c *cluster) submit(ctx context.Context, j Job) (id string, err error) {
	args := []string{
		"run", "--socket", c.socket, "--detach", "--name", j.Name, "--min", "1", "--max", strconv.Itoa(1 << (len(j.Speeds) - 1)),
		"--batch-size", "256", "--steps", strconv.Itoa(j.Steps), "--checkpoint-dir", filepath.Join(c.dir, "checkpoints"), "--",
		"python3", filepath.Join(c.dir, "train.py"), strconv.Itoa(j.Steps), seconds(j.StepTime.Seconds()), c.notes(j),
	}
	for _, speed := range j.Speeds {
		args = append(args, seconds(speed))
	}
	cmd := exec.CommandContext(ctx, c.o.Program, args...)
	cmd.Dir = c.dir
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("submit %s: %w: %s", j.Name, err, strings.TrimSpace(fault.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', -1, 64) }

func (c *cluster) notes(j Job) string { return filepath.Join(c.dir, j.Name+".notes") }

// noted reads what a job's worlds have noted, by generation.
func (c *cluster) noted(j Job) (worlds []generation, err error) {
	f, err := os.Open(c.notes(j))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var g generation
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			return nil, fmt.Errorf("read the notes of %s: %w", j.Name, err)
		}
		worlds = append(worlds, g)
	}
	slices.SortFunc(worlds, func(a, b generation) int { return int(a.Generation) - int(b.Generation) })
	if len(worlds) == 0 {
		return nil, fmt.Errorf("read the notes of %s: no world has trained", j.Name)
	}
	return worlds, nil
}

// costs are what the starts of a job's worlds took: the parts that the cluster
// measures, from the halt of the world before to the first exec, and then the
// script until its first step began.
func costs(worlds []generation, status api.JobStatus) (all []cost) {
	for _, g := range worlds {
		i := slices.IndexFunc(status.Rescales, func(r api.Rescale) bool { return r.Generation == g.Generation })
		if i < 0 || g.Steps == 0 {
			continue
		}
		r := status.Rescales[i]
		took := r.SignalS + r.SaveS + r.CommitS + r.StartS + g.First - g.Booted
		all = append(all, cost{workers: g.Workers, took: time.Duration(took * float64(time.Second))})
	}
	return all
}

// sleep waits, unless the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
