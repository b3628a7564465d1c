package api

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// knownRank refuses a rank that the job, or the generation that is asked for, has
// never had. While following, one that it may yet come to have is waited for.
func (j *jobLogs) knownRank(job cluster.JobID, q LogQuery) error {
	had, most := 0, 0
	_, err := j.view.read(func(m *record.Mirror) {
		v := m.Job(job)
		most = v.Scaled().MaxWorkers
		for g, view := range v.Generations {
			if q.Generation == 0 || q.Generation == g {
				had = max(had, view.Plan.Value.World.Processes())
			}
		}
		for g, r := range v.Rescales { // also of generations that are kept no more
			if q.Generation == 0 || q.Generation == g {
				had = max(had, r.Value.To)
			}
		}
	})
	rank := *q.Rank
	switch {
	case err != nil || rank < had, q.Follow && q.Generation == 0 && rank < most:
		return err
	case q.Generation != 0:
		return fault(NotFound, "rank %d of job %s: generation %d had ranks 0 to %d", rank, job, q.Generation, had-1)
	case had == 0:
		return fault(NotFound, "rank %d of job %s: it has not had workers yet", rank, job)
	}
	return fault(NotFound, "rank %d of job %s: it has had ranks 0 to %d so far", rank, job, had-1)
}
