package coordinator

import "github.com/bellows-ml/bellows/cluster"

// target is what the last decision granted a job: devices, or none and why.
type target struct {
	cluster.Allocation
	reason string
}

// Workers returns how many workers the job is to have.
func (t target) Workers() int { return t.Allocation.Workers() }

// targets are what the last decisions granted, by job and by device.
type targets struct {
	of      map[cluster.JobID]target
	devices map[cluster.DeviceID]cluster.JobID
}

func newTargets() targets {
	return targets{of: map[cluster.JobID]target{}, devices: map[cluster.DeviceID]cluster.JobID{}}
}

// grant notes what a job is to have.
func (c *Coordinator) grant(job cluster.JobID, t target) {
	c.ungrant(job)
	c.targets.of[job] = t
	for _, p := range t.Placements {
		for _, d := range p.Devices {
			c.targets.devices[d] = job
		}
	}
}

// ungrant forgets what a job was to have.
func (c *Coordinator) ungrant(job cluster.JobID) {
	for _, p := range c.targets.of[job].Placements {
		for _, d := range p.Devices {
			if c.targets.devices[d] == job {
				delete(c.targets.devices, d)
			}
		}
	}
	delete(c.targets.of, job)
	if f := c.forms[job]; f != nil {
		f.calm = 0
	}
}

// ungrantAll forgets what all jobs were to have.
func (c *Coordinator) ungrantAll() {
	clear(c.targets.of)
	clear(c.targets.devices)
	c.calm++
}

// promised reports whether a decision has granted the device to a job other than this.
func (c *Coordinator) promised(d cluster.DeviceID, job cluster.JobID) bool {
	id, ok := c.targets.devices[d]
	return ok && id != job
}

// workers is how many workers the job has now.
func (c *Coordinator) workers(job cluster.JobID) int {
	if f := c.job(job); f != nil {
		return f.has.Workers()
	}
	return 0
}
