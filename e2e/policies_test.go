package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Every policy that a simulation knows runs a real cluster too: on one fleet,
// whose coordinator comes back with the next policy, two jobs that compete for
// its devices are both trained to their ends. With -short, the default does, and those of papers.
func TestEveryPolicyTrainsJobs(t *testing.T) {
	t.Parallel()
	names := policy.Names()
	if testing.Short() {
		names = []string{policy.Default, "hu", "elasticflow", "saxena", "jahani", "convergence"}
	}
	f := newFleet(t, config{nodes: 2, devices: 2, policy: names[0], interval: 300 * time.Millisecond})
	for n, name := range names {
		if n > 0 {
			f.config.policy = name
			f.resign("coordinator-1")
			f.startCoordinator(1)
		}
		jobs := map[string]cluster.JobID{}
		for prefix, most := range map[string]int{"wide-": 4, "narrow-": 2} {
			jobs[prefix+name] = f.submit(f.sdkJob(prefix+name, 1, most, 1<<30, 0.02))
		}
		// Under some policies one waits for the other's end.
		f.eventually("two jobs to train under "+name, func() bool {
			for trained, id := range jobs {
				if f.lastStep(trained) >= 20 {
					f.stop(id)
					f.awaitPhase(id, cluster.Stopped)
					delete(jobs, trained)
				}
			}
			return len(jobs) == 0
		})
		f.await("a decision of "+name, func(m *record.Mirror) bool { return m.Decision.Value.Policy == name })
	}
}

// resign asks a process to end, so that a leader gives up its office, and waits until it is gone.
func (ps *processes) resign(name string) {
	ps.t.Helper()
	p := ps.procs[name]
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		ps.t.Fatal(err)
	}
	<-p.done
}
