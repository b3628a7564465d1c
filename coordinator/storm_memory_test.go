package coordinator_test

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
)

// starveWorker has a job run out of memory: from now on in each world that is as small
// as this one or smaller, since each worker's share of the batch is larger there.
func (s *storm) starveWorker(first *simNode) {
	for _, n := range append([]*simNode{first}, s.nodes...) {
		for _, sh := range n.Shims() {
			size, job := sh.World.Size(), s.jobs[sh.Job]
			if !sh.Running() || size < job.most && 2*size > s.devices() {
				continue // it would wait for devices for ever
			}
			s.note("%s needs more memory than %d workers have", sh.Job, size)
			job.hungry = max(job.hungry, size)
			s.starve(sh)
			return
		}
	}
}

// devices is how many the nodes have that are not gone for good.
func (s *storm) devices() (count int) {
	for _, n := range s.nodes {
		if !n.scrapped {
			count += len(n.Devices)
		}
	}
	return count
}

// starve ends the workers of a world that is too small for its job.
func (s *storm) starve(sh *machine.Shim) {
	if sh.Starve(); sh.Report().Failed != nil && sh.Report().Failed.OutOfMemory {
		s.did("out of memory")
		if sh.World.Size() >= s.jobs[sh.Job].most {
			s.did("out of memory in the largest world")
		}
	}
}

// checkMemory: no world is planned as small as one that ran out of memory, or smaller,
// while the job may have a larger one.
func (s *storm) checkMemory(v *record.JobView, p record.Plan) {
	out := v.State.Value.OutOfMemory
	if size := p.World.Size(); size <= out && largest(v) > out {
		s.fault("memory: %s is to have %d workers, and has run out of memory with %d", v.ID, size, out)
	}
}

// smallest is the size of the smallest world that a job may have, and has memory in.
func smallest(v *record.JobView) int {
	size, out := 1, v.State.Value.OutOfMemory
	for size < v.Scaled().MinWorkers || size <= out && size < largest(v) {
		size *= 2
	}
	return size
}

// largest is the size of the largest world that a job may have.
func largest(v *record.JobView) int {
	size := 1
	for 2*size <= v.Scaled().MaxWorkers {
		size *= 2
	}
	return size
}

// checkCharge: a job that gives a size up for want of memory is charged no restart for it.
func (s *storm) checkCharge(id cluster.JobID, was, is record.State) {
	if is.OutOfMemory > was.OutOfMemory && is.Restarts > was.Restarts {
		s.fault("memory: %s gives up worlds of %d, and is charged a restart: %d after %d", id, is.OutOfMemory, is.Restarts, was.Restarts)
	}
}
