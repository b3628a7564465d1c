package render

import (
	"fmt"
	"io"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cluster"
)

// Jobs writes the table of jobs.
func Jobs(w io.Writer, jobs []api.JobStatus, p View) error {
	t := output.Table{
		Head:  []string{"JOB", "OWNER", "PHASE", "WORKERS", "GEN", "PROGRESS", "STEPS/S", "LOSS", "GOODPUT", "STARTS", "ETA", "90%", "DEADLINE", "LEFT", "SINCE", "WHY"},
		Spare: []string{"GEN", "LOSS", "90%", "GOODPUT", "OWNER", "SINCE", "LEFT", "DEADLINE", "STEPS/S", "STARTS"},
		Paint: func(row, column int) string {
			if column != 2 {
				return ""
			}
			return phaseColour(jobs[row].Phase)
		},
	}
	for _, j := range jobs {
		t.Add(j.ID, j.Owner, string(j.Phase), workersOf(j), fmt.Sprint(j.Generation), progressOf(j), speedOf(j), lossOf(j), goodputOf(j),
			p.starts(j), p.toGo(j), p.interval(j), p.due(j), p.left(j), p.ago(j.Since), whyOf(j))
	}
	return t.Write(w, p.Style)
}

func phaseColour(phase cluster.Phase) string {
	switch phase {
	case cluster.Running, cluster.Succeeded:
		return output.Green
	case cluster.Starting, cluster.Halting, cluster.Queued:
		return output.Yellow
	case cluster.Backoff, cluster.Held, cluster.Failed:
		return output.Red
	case cluster.Stopped, cluster.Refused:
	}
	return ""
}

// workersOf says how many workers a job has and how many it may have.
func workersOf(j api.JobStatus) string {
	return fmt.Sprintf("%d (%d-%d)", j.Workers, j.MinWorkers, j.MaxWorkers)
}

func progressOf(j api.JobStatus) string {
	switch p := j.Progress; {
	case p.Fraction != nil:
		return fmt.Sprintf("%d%%", int(*p.Fraction*100))
	case p.Step > 0:
		return fmt.Sprintf("step %d", p.Step)
	}
	return "-"
}

func whyOf(j api.JobStatus) string {
	switch {
	case j.Ended:
		return j.Reason
	case j.Stopping:
		return "its owner stops it"
	case j.QueuePosition > 0:
		return fmt.Sprintf("place %d: %s", j.QueuePosition, j.WhyPending)
	case j.WhyPending != "":
		return j.WhyPending
	}
	return j.Reason
}
