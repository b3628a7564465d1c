package coordinator

import "github.com/bellows-ml/bellows/cluster"

// preparations are what this term has asked nodes to prepare. A plan takes the nonce of what was
// prepared only from here, and once: what a record says may be of a timeline of etcd that
// is lost, in which a generation of this nonce has run.
type preparations struct {
	of map[cluster.JobID]preparation
}

// preparation is the generation that is prepared.
type preparation struct {
	generation cluster.Generation
	nonce      string
}

func newPreparations() *preparations { return &preparations{map[cluster.JobID]preparation{}} }

// prepared returns what is prepared of the job's next generation.
func (p *preparations) prepared(j *job) (preparation, bool) {
	known, ok := p.of[j.ID]
	return known, ok && known.generation == j.number()+1
}

// note notes what nodes are asked for.
func (p *preparations) note(job cluster.JobID, asked preparation) { p.of[job] = asked }

// forget drops what was asked for, as it is used or its job is gone.
func (p *preparations) forget(job cluster.JobID) { delete(p.of, job) }
