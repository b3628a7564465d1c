package dev

import (
	"context"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/cli/socketpath"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
)

// haltEvery is how often shutting down looks whether all jobs have stopped.
const haltEvery = 100 * time.Millisecond

// shutDown brings the cluster down: jobs first, with a save, then agents and
// coordinator, and whatever is left. The records and checkpoints stay, and the
// next start on the same data directory goes on with the jobs. A second signal
// kills everything at once.
func (s *supervisor) shutDown(ctx context.Context, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() { // ends with this function
		select {
		case <-signals:
			fmt.Fprintln(s.msg, "killing everything")
			cancel()
		case <-done:
		}
	}()
	if err := s.haltJobs(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(s.msg, "bellows dev: "+err.Error())
	}
	if ctx.Err() == nil {
		// Agents leave, which frees their leases; the coordinator resigns.
		s.eachChild(func(c *child) { c.down(syscall.SIGTERM, leaveWithin) })
	}
	err := s.killAll()
	fmt.Fprintf(s.msg, "everything has ended; 'bellows dev' goes on from %s\n", s.layout.dir)
	return err
}

// haltJobs asks the leader to halt every job with a save, and waits for that.
func (s *supervisor) haltJobs(ctx context.Context) error {
	jobs, err := s.active(ctx)
	if err != nil {
		return err
	}
	if err = s.pause(ctx); err != nil || len(jobs) == 0 {
		return err
	}
	fmt.Fprintf(s.msg, "halting %s with a save, %s at most; Ctrl-C again kills\n", units.Count(len(jobs), "job"), haltWithin)
	ctx, cancel := context.WithTimeout(ctx, haltWithin)
	defer cancel()
	for {
		if jobs, err = s.active(ctx); err == nil && len(jobs) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not save in time and goes back to the last checkpoint: %s", units.Count(len(jobs), "job"), units.List(jobs))
		case <-time.After(haltEvery):
		}
	}
}

// pause writes the record that asks the leader for it. The scripts get a little
// less time than the supervisor waits, so that the leader still kills in order.
func (s *supervisor) pause(ctx context.Context) error {
	return s.commit(ctx, "pause the cluster", record.Put(record.PausedKey, record.Paused{
		Why: "bellows dev is shut down", At: time.Now().UTC(), SaveSeconds: (haltWithin - 2*time.Second).Seconds(),
	}))
}

// resume deletes the record that an earlier run has left.
func (s *supervisor) resume(ctx context.Context) error {
	return s.commit(ctx, "resume the cluster", record.Delete(record.PausedKey))
}

func (s *supervisor) commit(ctx context.Context, what string, ops ...record.Op) error {
	out := s.store.Commit(ctx, record.Txn{ID: what, Then: ops})
	if out.Result != record.Applied {
		return fmt.Errorf("%s: %s: %w", what, out.Result, out.Err)
	}
	return nil
}

// powerOfTwo returns the largest power of two up to n, which a job can have of n devices; n is at least 1.
func powerOfTwo(n int) int { return 1 << (bits.Len(uint(n)) - 1) }

// welcome says what to type next.
func (s *supervisor) welcome(took time.Duration) {
	w := s.msg
	fmt.Fprintf(w, "\n%s with %s each, ready in %.1f s; data in %s\n\n",
		units.Count(s.options.Nodes, "node"), units.Count(s.options.Devices, "simulated device"), took.Seconds(), s.layout.dir)
	if s.options.Socket != "" && os.Getenv(socketpath.Variable) == "" {
		fmt.Fprintf(w, "  export %s=%s\n", socketpath.Variable, s.layout.socket)
	}
	last := s.layout.nodes[len(s.layout.nodes)-1].id
	fmt.Fprintf(w, "  bellows nodes\n")
	fmt.Fprintf(w, "  bellows run --max %d -- python3 %s\n", powerOfTwo(s.options.Nodes*s.options.Devices), filepath.Join("examples", "plain.py"))
	fmt.Fprintf(w, "  bellows ps\n")
	fmt.Fprintf(w, "  bellows dev kill %s\n", last)
	fmt.Fprintf(w, "  etcdctl --endpoints=%s get --prefix %s\n\n", s.etcd.Endpoint(), record.Root)
	fmt.Fprintf(w, "Ctrl-C halts the jobs with a save and ends everything; the next start goes on with them.\n")
}
