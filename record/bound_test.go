package record_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

func TestCutEndsBetweenCharacters(t *testing.T) {
	t.Parallel()
	if got := record.Cut("short", 5); got != "short" {
		t.Errorf("%q", got)
	}
	for _, letter := range []string{"x", "ü", "字", "𝄞"} {
		for most := 20; most < 40; most++ {
			got := record.Cut(strings.Repeat(letter, 40), most)
			if len(got) > most || len(got) < most-3 || !utf8.ValidString(got) || !strings.HasSuffix(got, letter+"… (cut)") {
				t.Errorf("%s to %d: %d bytes, %q", letter, most, len(got), got)
			}
			if again := record.Cut(got+"; and more", most); again != got {
				t.Errorf("cut again after more was added: %q, before %q", again, got)
			}
		}
	}
}

// texts are the names of fields that hold words for people.
var texts = []string{"Reason", "Why", "Text", "Problem", "Model", "LogTail", "Containment", "DeviceFiles", "Location", "TopologyProblem", "Group", "NUMA"}

// swell makes every text in a record huge, and every map and list of them long.
func swell(v reflect.Value, field string) {
	if v.Type() == reflect.TypeFor[reason.Reason]() {
		v.Set(reflect.ValueOf(swollen))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*cluster.Spec]() {
			return // which Validate bounds
		}
		v.Set(reflect.New(v.Type().Elem()))
		swell(v.Elem(), field)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Type != reflect.TypeFor[cluster.Spec]() {
				swell(v.Field(i), f.Name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 30, 30))
		for i := range v.Len() {
			swell(v.Index(i), field)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range 30 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			if key.Kind() == reflect.String {
				key.SetString(fmt.Sprint("k", i))
			}
			swell(value, "Reason") // also where the value is a text itself
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		if slices.Contains(texts, field) {
			v.SetString(strings.Repeat("ü", 10_000))
		}
	default:
	}
}

// swollen is a reason of 900 long clauses, with arguments that no text shows.
var swollen = func() reason.Reason {
	c := reason.New(reason.Text, "said", strings.Repeat("ü", 500))
	for i := range 30 {
		c.Args[fmt.Sprint(i)] = "ü"
	}
	return slices.Repeat(reason.Of(c.About(slices.Repeat(reason.Of(c), 30))), 30)
}()

// longest returns the longest string below a value.
func longest(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = longest(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			n = max(n, longest(field))
		}
	case reflect.Slice:
		for i := range v.Len() {
			n = max(n, longest(v.Index(i)))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			n = max(n, longest(v.MapIndex(k)))
		}
	case reflect.String:
		n = v.Len()
	default:
	}
	return n
}

// Whatever record holds a text for people holds a short one once it is written,
// and once it is read, by all writers. A field of such a name that is added to a
// record and not cut shows here.
func TestTextsAreCutWhereTheyAreWrittenAndRead(t *testing.T) {
	t.Parallel()
	const node, job = "n1", "j-aaaaaa"
	for key, empty := range map[string]any{
		record.StateKey(job):                           record.State{},
		record.WantedKey(job):                          record.Wanted{},
		record.PlanKey(job, 1):                         record.Plan{},
		record.HaltKey(job, 1):                         record.Halt{},
		record.RescaleKey(job, 1):                      record.Rescale{},
		record.CommittedKey(job):                       record.Checkpoint{},
		record.SpeedKey(job):                           record.Speed{},
		record.JobKindKey(7, "k"):                      record.JobKind{},
		record.BadCheckpointKey(job, 1):                record.BadCheckpoint{},
		record.AllocationKey:                           record.Decision{},
		record.PausedKey:                               record.Paused{},
		record.EventKey(1):                             record.Event{},
		record.AliveKey(node):                          record.Alive{},
		record.InventoryKey(node):                      record.Inventory{},
		record.CordonKey(node):                         record.Cordon{},
		record.ProgressKey(node):                       record.Progress{},
		record.NodeEventKey(node, 1):                   record.Event{},
		record.RequestKey(node, "r"):                   record.Request{},
		record.AckKey(node, job, 1, record.AckFailed):  record.Failed{},
		record.AckKey(node, job, 1, record.AckStarted): record.Started{},
	} {
		huge := reflect.New(reflect.TypeOf(empty)).Elem()
		swell(huge, "")
		value := huge.Interface()
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		op := record.Put(key, value)
		if len(op.Value) > 64<<10 {
			t.Errorf("%s: %d bytes are written", key, len(op.Value))
		}
		small := record.Txn{Then: []record.Op{op}}.Small()
		if small.Bytes() > 16<<10 {
			t.Errorf("%s: %d bytes in the smallest form", key, small.Bytes())
		}
		m := mirror(t, nil)
		change(t, m, record.Change{KV: record.KV{Key: key, Value: text, CreateRevision: 1, ModRevision: 1}})
		for what, v := range map[string]any{"nodes": m.Nodes, "jobs": m.Jobs, "decision": m.Decision, "paused": m.Paused, "told": m.Told} {
			if n := longest(reflect.ValueOf(v)); n > record.MaxReason {
				t.Errorf("%s: a text of %d bytes is read into %s", key, n, what)
			}
		}
	}
}

// The last lines of a log are kept before the first.
func TestLogTailKeepsItsEnd(t *testing.T) {
	t.Parallel()
	f := record.Failed{LogTail: append(slices.Repeat([]string{strings.Repeat("a", 900)}, 20), strings.Repeat("b", 5000), "the reason")}
	var got record.Failed
	if err := json.Unmarshal(record.Put("k", f).Value, &got); err != nil {
		t.Fatal(err)
	}
	n := len(got.LogTail)
	if n != 9 || got.LogTail[n-1] != "the reason" || len(got.LogTail[n-2]) != record.MaxReason || len(strings.Join(got.LogTail, "")) > 8<<10 {
		t.Errorf("%d lines, %.100q", n, got.LogTail)
	}
}

// What cannot be cut, and other records would repeat, is not taken in.
func TestOverlongWordsAreNotRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for key, value := range map[string]any{
		record.OfferKey("n1", "j-aaaaaa", 1, 3): record.Offer{Checkpoint: record.Checkpoint{Dir: "/" + long}},
		record.AliveKey("n1"):                   record.Alive{Addr: long},
		record.InventoryKey("n1"):               record.Inventory{Devices: []cluster.Device{{ID: cluster.DeviceID(long)}}},
		record.RequestKey("n1", "r"):            record.Request{Owner: cluster.Owner{User: long}},
	} {
		m := mirror(t, nil)
		_, err := m.Apply(record.Change{KV: record.KV{Key: key, Value: record.Put(key, value).Value, CreateRevision: 1, ModRevision: 1}})
		if err == nil || !strings.Contains(err.Error(), "longer than it can rightly be") || len(err.Error()) > 500 {
			t.Errorf("%s: %.600v", key, err)
		}
	}
}

func TestSmallHasNoEvents(t *testing.T) {
	t.Parallel()
	txn := record.Txn{ID: "t", If: []record.Compare{record.Absent("a")}, Then: []record.Op{
		record.Put(record.StateKey("j"), record.State{Phase: "halting", Reason: reason.Said(strings.Repeat("r", 1000))}),
		record.Delete(record.PermitKey("j", 1)), record.Put(record.EventKey(1), record.Event{Why: reason.Said("w")}),
	}}
	small := txn.Small()
	if len(small.If) != 1 || len(small.Then) != 2 || !small.Then[1].Delete || len(small.Then[0].Value) > 500 || small.ID != "t" {
		t.Errorf("%+v", small)
	}
}

// What a script makes its node report is possible by the time that anybody reads it.
func TestImpossibleReportsAreCut(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	sound := record.JobProgress{Generation: 2, Step: 90, Samples: -1, FirstStep: 10, FirstAt: at.Add(-time.Minute), StepsPerSecond: 1.5, SamplesPerSecond: 96, At: at}
	without := sound
	without.FirstStep, without.FirstAt = 0, time.Time{}
	for name, c := range map[string]struct {
		change func(*record.JobProgress)
		want   record.JobProgress
	}{
		"as it should be":    {func(*record.JobProgress) {}, sound},
		"after the last":     {func(p *record.JobProgress) { p.FirstStep = 91 }, without},
		"in the future":      {func(p *record.JobProgress) { p.FirstAt = at.Add(1) }, without},
		"without a moment":   {func(p *record.JobProgress) { p.FirstAt = time.Time{} }, without},
		"before the first":   {func(p *record.JobProgress) { p.FirstStep = -5 }, without},
		"negative samples":   {func(p *record.JobProgress) { p.Samples = math.MinInt64 }, sound},
		"impossible speeds":  {func(p *record.JobProgress) { p.StepsPerSecond, p.SamplesPerSecond = 1e300, -1 }, func() record.JobProgress { p := sound; p.StepsPerSecond, p.SamplesPerSecond = 0, 0; return p }()},
		"a noise below zero": {func(p *record.JobProgress) { p.NoiseScale, p.BaseSteps = -1, -1 }, sound},
		"a noise too large":  {func(p *record.JobProgress) { p.NoiseScale = 1e300 }, sound},
		"a huge loss":        {func(p *record.JobProgress) { p.LossSum, p.Losses = 1e300, 3 }, sound},
		"negative losses":    {func(p *record.JobProgress) { p.LossSum, p.Losses, p.BadLosses = 1, -3, -1 }, sound},
		"a huge step":        {func(p *record.JobProgress) { p.Step = math.MaxInt64 }, func() record.JobProgress { p := sound; p.Step = record.MaxCount; return p }()},
	} {
		p := sound
		c.change(&p)
		whole := record.Progress{Jobs: map[cluster.JobID]record.JobProgress{"j-aaaaaa": p, "k-aaaaaa": sound}}
		var got record.Progress
		var stopped record.Stopped
		if err := errors.Join(json.Unmarshal(record.Put(record.ProgressKey("n1"), whole).Value, &got),
			json.Unmarshal(record.Put(record.AckKey("n1", "j-aaaaaa", 2, record.AckStopped), record.Stopped{Progress: &p}).Value, &stopped)); err != nil {
			t.Fatal(err)
		}
		if got.Jobs["j-aaaaaa"] != c.want || got.Jobs["k-aaaaaa"] != sound || *stopped.Progress != c.want {
			t.Errorf("%s: %+v and %+v, want %+v", name, got.Jobs["j-aaaaaa"], *stopped.Progress, c.want)
		}
		if whole.Jobs["j-aaaaaa"] != p {
			t.Errorf("%s: the record itself was changed", name)
		}
	}
}
