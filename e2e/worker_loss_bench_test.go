package e2e

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// BenchmarkWorkerLoss measures how long a job is away when one of its workers is
// killed, on the other node than rank 0's and on that in turn, from the kill on:
// until the survivors are dead (those beside it, and those of the other node), the
// next generation is planned, its last worker is executed ("own": Bellows's own
// share), and it has taken a step (Python's start and the script's).
//
//	go test ./e2e -run ^$ -bench WorkerLoss -benchtime 20x
func BenchmarkWorkerLoss(b *testing.B) {
	for _, workers := range []int{2, 4} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			f := newFleet(b, config{nodes: 2, devices: workers / 2, policy: "share"})
			j := f.sdkJob("survivor", workers, workers, 1<<30, 0.02*float64(workers), "--save-every", "10")
			j["max-restarts"] = 1 << 20
			id := f.submit(j)
			var p parts
			for turn := 0; b.Loop(); turn++ {
				f.loseWorker(id, workers, turn, &p)
			}
			p.report(b)
		})
	}
}

// loseWorker kills a worker of a settled generation, and adds what that took.
func (f *fleet) loseWorker(id cluster.JobID, workers, turn int, p *parts) {
	f.t.Helper()
	g := f.settled(id, workers)
	m := f.mirror()
	plan := m.Job(id).Generation(g).Plan.Value
	time.Sleep(time.Until(plan.At.Add(2 * time.Second))) // a world that ends at once is no world that had trained
	f.phase(turn, time.Second)
	victim := plan.World.Members[(turn+1)%2].Node
	pids := map[cluster.NodeID][]int{}
	for _, member := range plan.World.Members {
		for _, w := range m.Node(member.Node).Ack(id, g, plan.World.Nonce).Started.Value.Workers {
			pids[member.Node] = append(pids[member.Node], w.PID)
		}
	}
	killed := time.Now()
	if err := syscall.Kill(pids[victim][0], syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	for _, n := range []cluster.NodeID{victim, plan.World.Members[turn%2].Node} {
		for _, pid := range pids[n] {
			for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				time.Sleep(time.Millisecond / 2)
			}
		}
		if name := "beside"; n == victim {
			p.add(name, time.Since(killed))
		} else {
			p.add("peers", time.Since(killed))
		}
	}
	m = f.await("the next generation", func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		return s.Generation > g && s.Phase == cluster.Running
	})
	next := m.Job(id).Generation(g + 1).Plan.Value
	p.add("planned", next.At.Sub(killed))
	execed := time.Time{}
	for _, member := range next.World.Members {
		if at := m.Node(member.Node).Ack(id, g+1, next.World.Nonce).Started.Value.ExecedAt; at.After(execed) {
			execed = at
		}
	}
	p.add("own", execed.Sub(killed))
	f.awaitLine("survivor", "a step after the kill", func(l traceLine) bool { return l.Generation == int(g+1) })
	p.add("step", time.Since(killed))
}
