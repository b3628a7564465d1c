package record_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Numbers that cannot have been measured are left out, and lists without end cut, however they were written.
func TestAbsurdMeasurementsAreNotRead(t *testing.T) {
	good := `{"workers":2,"nodes":1,"batch":64,"steps_per_second":2,"windows":3,"generation":1}`
	points, starts, curve := good, `{"workers":2,"seconds":20}`, `{"workers":2,"steps_per_second":2}`
	for _, bad := range []string{
		`{"workers":0,"nodes":1,"steps_per_second":2,"windows":3}`, `{"workers":2,"nodes":1,"steps_per_second":-2,"windows":3}`,
		`{"workers":2,"nodes":1,"steps_per_second":1e300,"windows":3}`, `{"workers":2,"nodes":1,"steps_per_second":0,"windows":3}`,
		`{"workers":9223372036854775807,"nodes":1,"steps_per_second":2,"windows":3}`, `{"workers":2,"nodes":-1,"steps_per_second":2,"windows":3}`,
		`{"workers":2,"nodes":1,"steps_per_second":2,"windows":0}`,
	} {
		points, curve = bad+","+points, `{"workers":-1,"steps_per_second":2},{"workers":1,"steps_per_second":-1},`+curve
	}
	starts = `{"workers":2,"seconds":-1},{"workers":0,"seconds":1},{"workers":2,"seconds":1e9},` + starts
	for range 100 {
		points, starts, curve = points+","+good, starts+`,{"workers":1,"seconds":3}`, curve+`,{"workers":4,"steps_per_second":3}`
	}
	m := mirror(t, nil)
	put := func(key, value string) error {
		_, err := m.Apply(record.Change{KV: record.KV{Key: key, Value: []byte(value), CreateRevision: 1, ModRevision: 1}})
		return err
	}
	if err := put(record.SpeedKey("j"), fmt.Sprintf(`{"points":[%s],"starts":[%s],"curve":[%s]}`, points, starts, curve)); err != nil {
		t.Fatal(err)
	}
	if err := put(record.SpeedKey("told"), `{"told":[{"at":"2026-01-01T00:00:00Z","remaining_s":-1},{"at":"2026-01-01T00:00:00Z","remaining_s":1e300},{"remaining_s":5},{"at":"2026-01-01T00:00:00Z","remaining_s":5}]}`); err != nil {
		t.Fatal(err)
	}
	if told := m.Job("told").Speed.Value.Told; len(told) != 1 || told[0].RemainingS != 5 {
		t.Errorf("told %+v", told)
	}
	if err := put(record.JobKindKey(7, "ends"), `{"ends":[{"predicted_s":-1,"actual_s":2},{"predicted_s":3,"actual_s":1e300},{"predicted_s":3,"actual_s":2}]}`); err != nil {
		t.Fatal(err)
	}
	if ends := m.Kinds[7]["ends"].Value.Ends; len(ends) != 1 || ends[0].ActualS != 2 {
		t.Errorf("ends %+v", ends)
	}
	if err := put(record.JobKindKey(7, "k"), fmt.Sprintf(`{"points":[%s],"starts":[%s]}`, points, starts)); err != nil {
		t.Fatal(err)
	}
	s, k := m.Job("j").Speed.Value, m.Kinds[7]["k"].Value
	if len(s.Points) != record.MaxSpeedPoints || len(s.Starts) != record.MaxStartPoints || len(s.Curve) != record.MaxCurve ||
		len(k.Points) != record.MaxSpeedPoints || len(k.Starts) != record.MaxStartPoints {
		t.Errorf("%d points, %d starts, %d of the curve; %d and %d of the kind", len(s.Points), len(s.Starts), len(s.Curve), len(k.Points), len(k.Starts))
	}
	for _, p := range s.Points {
		if p.Workers != 2 || p.StepsPerSecond != 2 || p.Windows != 3 {
			t.Errorf("%+v was read", p)
		}
	}
	if s.Starts[0].Seconds != 20 || s.Curve[0].Workers != 2 {
		t.Errorf("%+v, %+v", s.Starts[0], s.Curve[0])
	}
}

// A job whose measurements cannot be read goes on without them.
func TestUnreadableSpeedHoldsNoJob(t *testing.T) {
	m := mirror(t, nil)
	if _, err := m.Apply(record.Change{KV: record.KV{Key: record.SpeedKey("j"), Value: []byte("?"), ModRevision: 2}}); err == nil {
		t.Error("it was read")
	}
	if why := m.Job("j").Unreadable(); why != "" {
		t.Error(why)
	}
}

func TestGoodput(t *testing.T) {
	for _, c := range []struct{ useful, trained, want float64 }{{30, 60, 0.5}, {0, 60, 0}, {70, 60, 1}, {10, 0, 0}, {-1, 5, 0}} {
		if got := (record.Speed{UsefulS: c.useful, TrainedS: c.trained}).Goodput(); got != c.want {
			t.Errorf("%v of %v s: %v, want %v", c.useful, c.trained, got, c.want)
		}
	}
}

// Of one user's kinds the oldest make room, and no other user's.
func TestOldestKindsMakeRoom(t *testing.T) {
	m := mirror(t, nil)
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for i := range record.MaxKinds + 2 {
		k := record.JobKind{At: at.Add(-time.Duration(i) * time.Minute), Jobs: 1}
		for _, uid := range []uint32{7, 8} {
			key := record.JobKindKey(uid, fmt.Sprint("k", i))
			change(t, m, record.Change{KV: record.KV{Key: key, Value: record.Put(key, k).Value, CreateRevision: 1, ModRevision: int64(i + 1)}})
		}
	}
	if got := fmt.Sprint(m.OldestKinds(7, "new")); got != "[k51 k50 k49]" {
		t.Errorf("for a new one %s go", got)
	}
	if got := fmt.Sprint(m.OldestKinds(7, "k51")); got != "[k50 k49]" {
		t.Errorf("for one that is there %s go", got)
	}
	if got := m.OldestKinds(9, "new"); len(got) > 0 {
		t.Errorf("of a user without any %v go", got)
	}
}

// Devices of two models are never taken for one, however long their names.
func TestModelsKeepTheirNames(t *testing.T) {
	m, long := mirror(t, nil), strings.Repeat("x", cluster.MaxModelBytes-1)
	text := fmt.Sprintf(`{"points":[{"workers":1,"nodes":1,"model":%q,"steps_per_second":2,"windows":3},{"workers":1,"nodes":1,"model":%q,"steps_per_second":2,"windows":3},`+
		`{"workers":1,"nodes":1,"model":%q,"steps_per_second":2,"windows":3}]}`, long+"a", long+"b", long+"bc")
	if _, err := m.Apply(record.Change{KV: record.KV{Key: record.SpeedKey("j"), Value: []byte(text), CreateRevision: 1, ModRevision: 1}}); err != nil {
		t.Fatal(err)
	}
	if p := m.Job("j").Speed.Value.Points; p[0].Model != long+"a" || p[1].Model != long+"b" || len(p[2].Model) > cluster.MaxModelBytes {
		t.Errorf("%+v", p)
	}
}
