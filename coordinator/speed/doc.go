// Package speed knows how fast jobs train: what the reports of their running
// generations have shown, what earlier generations and other jobs of the same kind
// have shown, and what follows for the time that is left.
//
//	ms := speed.New(off)
//	ms.Take(mirror, place, now)            // each record that has changed
//	k := ms.Of(mirror, now, speed.Job{…})  // one job, now
//	k.Foresee(overdue)                     // its work left, speeds by size, start costs: forecast.Forecast
//	k.Record()                             // what to write to its speed record
//
// It promises to need no memory of its own: a new leader goes on from the speed
// records, and loses the measurements since the last one. A job's model is fitted
// anew only when one of its inputs has changed. The package is pure: it decides
// nothing about a job and writes nothing; package coordinator says when a record is
// due.
package speed
