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
// its devices are both trained to their ends.
func TestEveryPolicyTrainsJobs(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 2, policy: policy.Names()[0], interval: 300 * time.Millisecond})
	for n, name := range policy.Names() {
		if n > 0 {
			f.config.policy = name
			f.resign("coordinator-1")
			f.startCoordinator(1)
		}
		// So long that no rank is through while another still starts: their steps are not in step.
		wide := f.submit(f.sdkJob("wide-"+name, 1, 4, 150, 0.02))
		narrow := f.submit(f.sdkJob("narrow-"+name, 1, 2, 20, 0.02))
		for _, id := range []cluster.JobID{wide, narrow} {
			if s := f.awaitPhase(id, time.Minute, cluster.Succeeded, cluster.Failed, cluster.Held); s.Phase != cluster.Succeeded {
				t.Fatalf("%s under %s: %s, %s", id, name, s.Phase, s.Reason)
			}
		}
		f.await(time.Minute, "a decision of "+name, func(m *record.Mirror) bool { return m.Decision.Value.Policy == name })
	}
}

// resign asks a process to end, so that a leader gives up its office, and waits until it is gone.
func (f *fleet) resign(name string) {
	f.t.Helper()
	p := f.procs[name]
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		f.t.Fatal(err)
	}
	<-p.done
}
