package serve

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/recordtest"
)

// Whatever others have written, all that is shown can be shown, and a job whose
// records are sound is shown as it is.
func TestRecordsMadeWrongAreShown(t *testing.T) {
	const sound = "running-aaaaaa"
	seeds := uint64(600)
	if testing.Short() {
		seeds = 100
	}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	sample := recordtest.Sample(now)
	who := cluster.Owner{UID: 1000, User: "ann"}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		kvs, touched := recordtest.Wrong(rng, sample, 1+rng.IntN(40), func(key string) bool {
			return key == record.SpecKey(sound) || key == record.StateKey(sound) || key == record.WantedKey(sound)
		})
		m, _ := record.NewMirror(kvs, int64(len(sample))) // what cannot be read is left out
		all := jobs(m, who, func(cluster.JobID, string, bool) bool { return true })
		shown := map[string]any{"jobs": all, "nodes": nodeStatuses(m, nil), "leader": leaderOf(m), "census": m.Census(now)}
		var events []api.Event
		for _, h := range m.Events(0) {
			events = append(events, eventOf(h))
		}
		shown["events"] = events
		found := false
		for _, j := range all {
			s, ok := findJob(m, j.ID, who)
			shown["job "+j.ID] = s
			found = found || ok && j.ID == sound && s.Phase == cluster.Running && s.Name == "running"
			v := m.Job(cluster.JobID(j.ID))
			from := int64(50)
			shown["resume "+j.ID] = []any{stepsOf(v), resumable(v, &from), resumable(v, nil)}
		}
		for _, n := range []cluster.NodeID{"n1", "n2"} {
			shown["removal of "+string(n)] = stays(m, n)
		}
		for name, v := range shown {
			if _, err := json.Marshal(v); err != nil {
				t.Errorf("seed %d: %s: %v; made wrong: %q", seed, name, err, touched)
			}
		}
		if !found {
			t.Errorf("seed %d: %s is not shown as it is; made wrong: %q", seed, sound, touched)
		}
	}
}

// What is computed of records can be shown where each of them alone could.
func TestAbsurdRecordsAreShown(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, op := range map[string]record.Op{
		"a start at the end of time": record.Put(record.StateKey("running-aaaaaa"), record.State{
			Phase: cluster.Running, Generation: 2, Since: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		}),
		"a phase of an early version": record.Put(record.StateKey("running-aaaaaa"), record.State{Phase: "suspended", Generation: 2, Since: now}),
		"steps that take for ever": record.Put(record.ProgressKey("n1"), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{
			"running-aaaaaa": {Generation: 2, Step: 90, StepsPerSecond: 5e-324, At: now, Nonce: "k7qz2mxw4fba"},
		}}),
	} {
		kvs := append(recordtest.Sample(now), record.KV{Key: op.Key, Value: op.Value, CreateRevision: 1, ModRevision: 1 << 20})
		m, err := record.NewMirror(kvs, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		job, ok := findJob(m, "running-aaaaaa", cluster.Owner{})
		if text, err := json.Marshal(job); err != nil || !ok {
			t.Errorf("%s: %v, %t, %s", name, err, ok, text)
		}
	}
}
