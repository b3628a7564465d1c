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

// grant notes what a job is to have. One that is told the same again is not roused.
func (c *Coordinator) grant(job cluster.JobID, t target) {
	if old, ok := c.targets.of[job]; !ok || !old.Equal(t.Allocation) || old.reason != t.reason {
		c.rouse(job)
	}
	c.targets.drop(job)
	c.targets.of[job] = t
	for _, p := range t.Placements {
		for _, d := range p.Devices {
			c.targets.devices[d] = job
		}
	}
}

// ungrant forgets what a job was to have.
func (c *Coordinator) ungrant(job cluster.JobID) {
	if _, ok := c.targets.of[job]; ok {
		c.rouse(job)
	}
	c.targets.drop(job)
}

// ungrantOthers forgets what all jobs were to have but these.
func (c *Coordinator) ungrantOthers(than map[cluster.JobID]target) {
	for job := range c.targets.of {
		if _, ok := than[job]; !ok {
			c.ungrant(job)
		}
	}
}

func (t targets) drop(job cluster.JobID) {
	for _, p := range t.of[job].Placements {
		for _, d := range p.Devices {
			if t.devices[d] == job {
				delete(t.devices, d)
			}
		}
	}
	delete(t.of, job)
}

// rouse has every rule look at the job again.
func (c *Coordinator) rouse(job cluster.JobID) {
	if f := c.forms[job]; f != nil {
		f.calm = 0
	}
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
