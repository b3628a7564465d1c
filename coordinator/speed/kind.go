package speed

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// leastLength is the least time with workers that a kind learns of by itself.
	leastLength = time.Minute
	// endsOfAJob is of how many predictions of one job it is kept how they came out.
	endsOfAJob = 4
)

// RecordKind is what is to be written once a job has ended: its speed record, which names its kind
// then, and the record of its kind with what the job has shown. False if it has shown nothing, or that is written already.
func (k Known) RecordKind() (s record.Speed, kind record.JobKind, ok bool) {
	s = k.Speed.Value
	name := k.Spec.Value.KindName()
	if k.all.off || s.Kind != "" || len(s.Points)+len(s.Starts) == 0 && !k.lengthAlone() || k.Void() || cluster.CheckKind(name) != nil {
		return s, kind, false
	}
	if !k.Speed.Exists() {
		s = record.Speed{Generation: k.State.Value.Generation, At: k.now, Step: -1, Samples: -1}
	}
	was := k.kind(name).Value
	kind = record.JobKind{
		At: k.now, Job: k.ID, Jobs: was.Jobs + 1, Points: slices.Clone(was.Points), Ends: was.Ends, Lengths: was.Lengths,
		NoiseScale: cmp.Or(s.LeastNoise, was.NoiseScale),
	}
	for i := range kind.Points {
		kind.Points[i].Generation = 0 // older than all of this job
	}
	for _, p := range s.Points {
		kind.Points = withPoint(kind.Points, p)
	}
	kind.Starts = append(slices.Clone(was.Starts), s.Starts...)
	kind.Starts = kind.Starts[max(0, len(kind.Starts)-record.MaxStartPoints):]
	if k.State.Value.Phase == cluster.Succeeded {
		kind.Ends, kind.Lengths = withEnds(kind.Ends, s.Told, k.State.Value.Since), k.withLength(kind.Lengths)
	}
	s.Kind, s.Prediction = name, nil
	return s, kind, true
}

// lengthAlone reports whether a job that has told nothing has succeeded, and taken long
// enough to tell how much jobs of its kind take: by its time with workers.
func (k Known) lengthAlone() bool {
	return k.State.Value.Phase == cluster.Succeeded && k.Trained >= leastLength
}

// withEnds adds how some of a job's predictions came out, the same number of each job.
func withEnds(ends []record.EndPoint, told []record.ToldEnd, ended time.Time) []record.EndPoint {
	ends = slices.Clone(ends)
	for i := range min(len(told), endsOfAJob) {
		t := told[(2*i+1)*len(told)/(2*min(len(told), endsOfAJob))]
		if actual := ended.Sub(t.At).Seconds(); actual >= 0 {
			ends = append(ends, record.EndPoint{PredictedS: t.RemainingS, ActualS: math.Round(actual)})
		}
	}
	return ends[max(0, len(ends)-record.MaxEnds):]
}

// withLength adds how much the job took that has succeeded.
func (k Known) withLength(lengths []record.Length) []record.Length {
	was := k.Speed.Value
	l, ok := k.learn().Length(forecast.Job{
		Done: max(was.Step, was.BaseSteps), Reported: was.Step > 0, PerNode: k.PerNode, Trained: k.Trained, Service: k.Service,
	})
	if !ok {
		return lengths
	}
	l.WorkS = math.Round(l.WorkS*1000) / 1000
	lengths = append(slices.Clone(lengths), l)
	return lengths[max(0, len(lengths)-record.MaxLengths):]
}
