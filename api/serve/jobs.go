package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// jobReader answers requests for the status of jobs.
type jobReader struct {
	view    *view
	devices *deviceReader
	ahead   *foresight
}

func (j *jobReader) handleJobs(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	all := r.URL.Query().Has("all")
	list := []api.JobStatus{}
	if _, err = j.view.read(func(m *record.Mirror) {
		list = append(list, jobs(m, who, func(_ cluster.JobID, _ string, ended bool) bool { return all || !ended })...)
	}); err != nil {
		writeError(w, err)
		return
	}
	j.ahead.add(r.Context(), list)
	writeJSON(w, http.StatusOK, list)
}

func (j *jobReader) handleJob(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	status, _, err := j.view.job(r.PathValue("job"), who)
	if err != nil {
		writeError(w, err)
		return
	}
	j.devices.addToJob(r.Context(), &status)
	one := []api.JobStatus{status}
	j.ahead.add(r.Context(), one)
	writeJSON(w, http.StatusOK, one[0])
}

// watchEvery is how often a watched job is looked at at most: a big cluster changes
// hundreds of times a second, and mostly elsewhere.
const watchEvery = 200 * time.Millisecond

// handleWatch writes the job's status as a JSON line whenever it changes, until the job has ended.
func (j *jobReader) handleWatch(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	ref, last, out := r.PathValue("job"), "", newLines(w)
	for {
		next := time.After(watchEvery)
		status, changed, err := j.view.job(ref, who)
		if err != nil {
			if last == "" {
				writeError(w, err)
			}
			return
		}
		ref = status.ID // a name may come to mean another job
		line, err := json.Marshal(status)
		if err != nil {
			panic(fmt.Sprintf("marshal %+v: %v", status, err))
		}
		if string(line) != last {
			last = string(line)
			if out.write(line) != nil {
				return // the caller has gone
			}
		}
		if status.Ended {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		select {
		case <-next:
		case <-r.Context().Done():
			return
		}
	}
}
