package coordinator_test

import (
	"time"

	"github.com/bellows-ml/bellows/record"
)

// restoreEtcd takes a backup, and goes back to it after a while. Whatever happened in
// between is known to the nodes, and to leaders that have not listed again, but not to etcd.
func (s *storm) restoreEtcd(*simNode) {
	if s.epoch > 0 || !s.chance(70) {
		return
	}
	backup := s.mem.Backup()
	s.at(s.between(2*time.Second, 20*time.Second), func() { s.restore(backup) })
}

// sleepThroughRestore freezes the leader while etcd is restored: it thaws with what it
// knew before, and acts on that until its listing comes.
func (s *storm) sleepThroughRestore() {
	if l := s.leader(); l.active && s.chance(70) {
		l.frozen = max(l.frozen, s.now+s.between(0, leaderTTL/2))
		s.note("leader freezes until +%v", l.frozen)
	}
}

func (s *storm) restore(backup *record.Memory) {
	if s.calm || s.epoch > 0 {
		return
	}
	s.note("etcd is restored from a backup")
	s.sleepThroughRestore()
	s.did("etcd restored")
	for _, l := range s.leaders {
		l.slept = s.now < l.frozen
	}
	before := s.mirror
	s.mem.Restore(backup)
	kvs, revision := s.mem.Range(record.Root)
	mirror, err := record.NewMirror(kvs, revision)
	if err != nil {
		s.fault("%v", err)
	}
	s.mirror, s.seen, s.epoch = mirror, revision, s.epoch+1
	for _, id := range before.JobIDs() {
		for g, gen := range before.Job(id).Generations {
			if gen.Plan.Exists() && !mirror.Job(id).Generation(g).Plan.Exists() {
				s.did("generation lost with etcd")
				s.lost[gen.Plan.Value.World.Nonce] = true
			}
		}
	}
	for _, id := range before.NodeIDs() {
		for job, ready := range before.Node(id).Ready {
			if !mirror.Node(id).Ready[job].Value.For(record.Next{Generation: ready.Value.Generation, Nonce: ready.Value.Nonce}) {
				s.lost[ready.Value.Nonce] = true
			}
		}
	}
	s.forgetJobs()
	clear(s.halted)
	clear(s.told)
	clear(s.charged)
	for _, e := range mirror.Told { // nodes number their own events
		s.told[e.Value.Seq] = true
	}
	for _, l := range s.leaders {
		if l.active {
			s.at(s.between(0, 3*time.Second), l.list) // its watch has ended, which it learns once it is connected again
		}
	}
}

// forgetJobs notes which jobs' submits were lost with what came after the backup.
func (s *storm) forgetJobs() {
	asked := map[string]bool{}
	for _, n := range s.mirror.NodeIDs() {
		for _, r := range s.mirror.Node(n).Requests {
			asked[string(r.Value.Job)] = r.Value.Kind == record.SubmitRequest || asked[string(r.Value.Job)]
		}
	}
	for id := range s.jobs {
		if !s.mirror.Job(id).Spec.Exists() && !asked[string(id)] {
			s.unborn[id] = true
		}
	}
}
