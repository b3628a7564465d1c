package record_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// exemplar is one key with a value, and where a mirror shows it.
type exemplar struct {
	function string // of keys.go, or the constant
	key      string
	value    any
	shown    func(*record.Mirror) any
}

func exemplars(n cluster.NodeID, j cluster.JobID, g cluster.Generation, step int64) []exemplar {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	jg := record.JobGen{Job: j, Generation: g}
	ack := func(m *record.Mirror) (a record.Acks) {
		if all := m.Node(n).Acks[jg]; all != nil {
			a = *all
		}
		return a
	}
	saved := record.Checkpoint{Generation: g, Step: step, Dir: "/d"}
	return []exemplar{
		{"MetaKey", record.MetaKey, record.Meta{Format: 1, Cluster: "c"}, func(m *record.Mirror) any { return m.Meta.Value }},
		{"PausedKey", record.PausedKey, record.Paused{Why: "w"}, func(m *record.Mirror) any { return m.Paused.Value }},
		{"LimitsKey", record.LimitsKey, record.Limits{LiveJobs: 3, Exempt: []uint32{7}}, func(m *record.Mirror) any { return m.Limits.Value }},
		{"AllocationKey", record.AllocationKey, record.Decision{Policy: "p"}, func(m *record.Mirror) any { return m.Decision.Value }},
		{"PromisedKey", record.PromisedKey, record.Promises{Slot: 1, Jobs: map[cluster.JobID]record.Promise{j: {Profile: cluster.Profile{{Devices: 2}, {From: 3}}}}}, func(m *record.Mirror) any { return m.Promised.Value }},
		{"GrantedKey", record.GrantedKey, record.Granted{By: "start j #1"}, func(m *record.Mirror) any { return m.Granted.Value }},
		{"LeaderPrefix", record.LeaderPrefix + "694d9a3f21c80207", record.Leader{Node: "x"}, func(m *record.Mirror) any { return m.Leaders[record.LeaderPrefix+"694d9a3f21c80207"].Value }},
		{"AliveKey", record.AliveKey(n), record.Alive{BootID: "b"}, func(m *record.Mirror) any { return m.Node(n).Alive.Value }},
		{"InventoryKey", record.InventoryKey(n), record.Inventory{Problem: "p"}, func(m *record.Mirror) any { return m.Node(n).Inventory.Value }},
		{"FencingKey", record.FencingKey(n), record.Fencing{AliveRev: 7}, func(m *record.Mirror) any { return m.Node(n).Fencing.Value }},
		{"CordonKey", record.CordonKey(n), record.Cordon{Reason: "r"}, func(m *record.Mirror) any { return m.Node(n).Cordon.Value }},
		{"ProgressKey", record.ProgressKey(n), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{j: {Step: step}}}, func(m *record.Mirror) any { return m.Node(n).Progress.Value }},
		{"EventKey", record.EventKey(4711), record.Event{Seq: 4711, Kind: record.JobStarted, Job: j, To: 2}, func(m *record.Mirror) any { return m.Told[4711%record.KeptEvents].Value }},
		{"NodeEventKey", record.NodeEventKey(n, 35), record.Event{Seq: 35, Kind: record.NodeJoined, Node: n}, func(m *record.Mirror) any { return m.Node(n).Told[3].Value }},
		{"NextKey", record.NextKey(n, j), record.Next{Generation: g}, func(m *record.Mirror) any { return m.Node(n).Next[j].Value }},
		{"ReadyKey", record.ReadyKey(n, j), record.Ready{Generation: g}, func(m *record.Mirror) any { return m.Node(n).Ready[j].Value }},
		{"GrantKey", record.GrantKey(n, j), record.Grant{Generation: g}, func(m *record.Mirror) any { return m.Node(n).Grants[j].Value }},
		{"RequestKey", record.RequestKey(n, "k3x9qamplu"), record.Request{Kind: record.StopRequest, Job: j}, func(m *record.Mirror) any { return m.Node(n).Requests["k3x9qamplu"].Value }},
		{"AskedKey", record.AskedKey(n), record.Asked{Request: "k3x9qamplu"}, func(m *record.Mirror) any { return m.Node(n).Asked.Value }},
		{"AckKey", record.AckKey(n, j, g, record.AckStarted), record.Started{ExecedAt: at}, func(m *record.Mirror) any { return ack(m).Started.Value }},
		{"AckKey", record.AckKey(n, j, g, record.AckHeld), record.Held{Begun: step}, func(m *record.Mirror) any { return ack(m).Held.Value }},
		{"AckKey", record.AckKey(n, j, g, record.AckFailed), record.Failed{Reason: "r"}, func(m *record.Mirror) any { return ack(m).Failed.Value }},
		{"AckKey", record.AckKey(n, j, g, record.AckStopped), record.Stopped{Finished: true}, func(m *record.Mirror) any { return ack(m).Stopped.Value }},
		{"AckKey", record.AckKey(n, j, g, record.AckCleared), record.Cleared{At: at}, func(m *record.Mirror) any { return ack(m).Cleared.Value }},
		{"SavedKey", record.SavedKey(n, j, g, step), record.Saved{Dir: "/d"}, func(m *record.Mirror) any { return m.Node(n).Saved[jg][step].Value }},
		{"OfferKey", record.OfferKey(n, j, g, step), record.Offer{Checkpoint: saved}, func(m *record.Mirror) any { return m.Node(n).Offers[jg][step].Value }},
		{"SpecKey", record.SpecKey(j), record.Submitted{ID: j, At: at}, func(m *record.Mirror) any { return m.Job(j).Spec.Value }},
		{"WantedKey", record.WantedKey(j), record.Wanted{Run: true}, func(m *record.Mirror) any { return m.Job(j).Wanted.Value }},
		{"StateKey", record.StateKey(j), record.State{Phase: cluster.Running, Generation: g}, func(m *record.Mirror) any { return m.Job(j).State.Value }},
		{"PlanKey", record.PlanKey(j, g), record.Plan{Why: reason.Said("w"), WhyText: "w"}, func(m *record.Mirror) any { return m.Job(j).Generation(g).Plan.Value }},
		{"PermitKey", record.PermitKey(j, g), record.Permit{At: at}, func(m *record.Mirror) any { return m.Job(j).Generation(g).Permit.Value }},
		{"HaltKey", record.HaltKey(j, g), record.Halt{Why: reason.Said("w"), WhyText: "w"}, func(m *record.Mirror) any { return m.Job(j).Generation(g).Halt.Value }},
		{"FenceKey", record.FenceKey(j, g, n), record.Fence{AliveRev: 3}, func(m *record.Mirror) any { return m.Job(j).Generation(g).Fences[n].Value }},
		{"CommittedKey", record.CommittedKey(j), saved, func(m *record.Mirror) any { return m.Job(j).Committed.Value }},
		{"CheckpointKey", record.CheckpointKey(j, step), saved, func(m *record.Mirror) any { return m.Job(j).Checkpoints[step].Value }},
		{"BadCheckpointKey", record.BadCheckpointKey(j, step), record.BadCheckpoint{Reason: reason.Said("r"), ReasonText: "r"}, func(m *record.Mirror) any { return m.Job(j).Bad[step].Value }},
		{"SpeedKey", record.SpeedKey(j), record.Speed{Generation: g, At: at, Step: step, Samples: -1, Points: []record.SpeedPoint{{Workers: 2, Nodes: 1, StepsPerSecond: 3, Windows: 1}}}, func(m *record.Mirror) any { return m.Job(j).Speed.Value }},
		{"JobKindKey", record.JobKindKey(1000, "train.py-1f0a"), record.JobKind{Job: j, Jobs: 3}, func(m *record.Mirror) any { return m.Kinds[1000]["train.py-1f0a"].Value }},
		{"RescaleKey", record.RescaleKey(j, g), record.Rescale{Why: reason.Said("w"), WhyText: "w"}, func(m *record.Mirror) any { return m.Job(j).Rescales[g].Value }},
	}
}

// A record of a node, job or request without a name is of none: a mirror's view of
// what is not there stays empty.
func TestNoNameIsNoKey(t *testing.T) {
	for _, e := range slices.Concat(exemplars("", "j", 1, 2), exemplars("n", "", 1, 2)) {
		for _, value := range []string{"{}", "?"} {
			m := mirror(t, nil)
			if strings.Contains(strings.TrimPrefix(e.key, record.Root), "//") || strings.HasSuffix(e.key, "/") {
				_, err := m.Apply(record.Change{KV: record.KV{Key: e.key, Value: []byte(value), ModRevision: 5}})
				if err == nil || !strings.Contains(err.Error(), "unknown key") || len(m.Nodes)+len(m.Jobs) > 0 || m.Job("").Unreadable() != "" {
					t.Errorf("%s: %v; %d nodes, %d jobs", e.key, err, len(m.Nodes), len(m.Jobs))
				}
			}
		}
	}
}

func TestEveryKeyIsMirrored(t *testing.T) {
	covered := map[string]bool{}
	m := mirror(t, nil)
	for i, e := range exemplars("n-1.x", "job_a-k3", 123_456_789, 7) {
		covered[e.function] = true
		rev := int64(i + 10)
		op := record.Put(e.key, e.value)
		change(t, m, record.Change{KV: record.KV{Key: e.key, Value: op.Value, CreateRevision: rev, ModRevision: rev}})
		if got := e.shown(m); !reflect.DeepEqual(got, e.value) {
			t.Errorf("%s: mirror shows %+v, want %+v", e.key, got, e.value)
		}
		if !strings.HasPrefix(e.key, record.Root) || m.Revision != rev {
			t.Errorf("%s: outside the root, or revision %d instead of %d", e.key, m.Revision, rev)
		}
	}
	for _, name := range keyNames(t) {
		if !covered[name] {
			t.Errorf("%s is not tested: add it to exemplars", name)
		}
	}
	for i, e := range exemplars("n-1.x", "job_a-k3", 123_456_789, 7) {
		change(t, m, record.Change{KV: record.KV{Key: e.key, ModRevision: int64(i + 100)}, Deleted: true})
	}
	demandSame(t, "after everything was deleted", m, mirror(t, nil))
}

// keyNames reads which keys keys.go declares: functions …Key, constants …Key and the leaders' prefix.
func keyNames(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"LeaderPrefix"}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			names = append(names, decl.Name.Name)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok {
					names = append(names, value.Names[0].Name)
				}
			}
		}
	}
	names = slices.DeleteFunc(names, func(s string) bool {
		return s != "LeaderPrefix" && (!strings.HasSuffix(s, "Key") || !ast.IsExported(s))
	})
	if len(names) < 20 {
		t.Fatalf("only %d keys found in keys.go", len(names))
	}
	return names
}

func mirror(t *testing.T, kvs []record.KV) *record.Mirror {
	t.Helper()
	m, err := record.NewMirror(kvs, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func change(t *testing.T, m *record.Mirror, c record.Change) {
	t.Helper()
	if _, err := m.Apply(c); err != nil {
		t.Fatal(err)
	}
}

// text is all that a mirror shows, for comparing.
func text(t *testing.T, m *record.Mirror) string {
	t.Helper()
	shown := map[string]any{"meta": m.Meta, "leaders": m.Leaders, "decision": m.Decision, "paused": m.Paused}
	for id, v := range m.Nodes {
		acks := map[string]record.Acks{}
		for jg, a := range v.Acks {
			acks[fmt.Sprint(jg)] = *a
		}
		saved, offers := map[string]any{}, map[string]any{}
		for jg, s := range v.Saved {
			saved[fmt.Sprint(jg)] = s
		}
		for jg, o := range v.Offers {
			offers[fmt.Sprint(jg)] = o
		}
		shown["node "+string(id)] = []any{v.Alive, v.Inventory, v.Fencing, v.Cordon, v.Progress, v.Asked, v.Grants, v.Next, v.Ready, v.Requests, acks, saved, offers}
	}
	for id, v := range m.Jobs {
		if v.Unreadable() != "" && !v.Spec.Exists() && !v.State.Exists() {
			continue // there for nothing else
		}
		shown["job "+string(id)] = v
	}
	out, err := json.MarshalIndent(shown, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func demandSame(t *testing.T, what string, got, want *record.Mirror) {
	t.Helper()
	if a, b := text(t, got), text(t, want); a != b {
		t.Fatalf("%s:\n got %s\nwant %s", what, a, b)
	}
}

// However a history is delivered, with repetitions and overtaking, its mirror is that of a listing at its end.
func TestStreamAgreesWithListing(t *testing.T) {
	var all []exemplar
	for _, n := range []cluster.NodeID{"n1", "n2"} {
		for g := range cluster.Generation(2) {
			all = append(all, exemplars(n, cluster.JobID("job-"+n), g+1, int64(g))...)
		}
	}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		mem := record.NewMemory()
		for range 120 {
			e := all[random.IntN(len(all))]
			op := record.Put(e.key, e.value)
			switch random.IntN(6) {
			case 0, 1, 2:
				op = record.Delete(e.key)
			case 3:
				op = record.DeletePrefix(e.key[:strings.LastIndex(e.key, "/")+1])
			}
			mem.Commit(record.Txn{Then: []record.Op{op}})
		}
		kvs, revision := mem.Range(record.Root)
		history, err := mem.Changes(0, record.Root)
		if err != nil {
			t.Fatal(err)
		}
		want := mirror(t, kvs)
		delivered := slices.Clone(history)
		for range len(history) / 2 {
			delivered = append(delivered, history[random.IntN(len(history))])
		}
		inOrder, shuffled := mirror(t, nil), mirror(t, nil)
		for _, c := range history {
			change(t, inOrder, c)
		}
		demandSame(t, fmt.Sprintf("seed %d, in order", seed), inOrder, want)
		random.Shuffle(len(delivered), func(i, j int) { delivered[i], delivered[j] = delivered[j], delivered[i] })
		for _, c := range delivered {
			change(t, shuffled, c)
		}
		demandSame(t, fmt.Sprintf("seed %d, shuffled", seed), shuffled, want)
		if inOrder.Revision != revision || shuffled.Revision != revision {
			t.Fatalf("seed %d: revisions %d and %d, want %d", seed, inOrder.Revision, shuffled.Revision, revision)
		}
	}
}

func TestWhatCannotBeReadChangesNothing(t *testing.T) {
	var kvs []record.KV
	for i, e := range exemplars("n", "j", 1, 1) {
		kvs = append(kvs, record.KV{Key: e.key, Value: record.Put(e.key, e.value).Value, CreateRevision: int64(i + 1), ModRevision: int64(i + 1)})
	}
	for _, full := range []bool{false, true} {
		have := kvs
		if !full {
			have = nil
		}
		for _, e := range exemplars("n", "j", 1, 1) {
			demandRefusal(t, have, e.key, "garbage")
		}
		for _, key := range []string{
			"/bellows/", "/bellows/metal", "/bellows/nodes/n", "/bellows/nodes/n/", "/bellows/nodes/n/alive/x", "/bellows/nodes/x/unheard",
			"/bellows/nodes/n/ack/j/1/started", "/bellows/nodes/n/ack/j/00000001/odd", "/bellows/nodes/n/saved/j/00000001/x",
			"/bellows/nodes/n/lost/j/00000001/1", "/bellows/jobs/j", "/bellows/jobs/x/odd", "/bellows/jobs/j/gen/1/plan",
			"/bellows/jobs/j/gen/00000009/odd", "/bellows/jobs/j/checkpoint/odd", "/bellows/jobs/j/checkpoint/history/x",
			"/bellows/jobs/j/checkpoint/odd/1", "/bellows/jobs/j/rescales/x", "/elsewhere",
		} {
			demandRefusal(t, have, key, "{}")
		}
	}
	m, err := record.NewMirror(append(slices.Clone(kvs), record.KV{Key: "/bellows/odd", ModRevision: 99}), 100)
	if err == nil || !strings.Contains(err.Error(), "/bellows/odd") {
		t.Errorf("a listing with an unknown key: %v", err)
	}
	demandSame(t, "a listing with an unknown key", m, mirror(t, kvs))
}

func demandRefusal(t *testing.T, have []record.KV, key, value string) {
	t.Helper()
	m := mirror(t, have)
	before := m.Revision
	_, err := m.Apply(record.Change{KV: record.KV{Key: key, Value: []byte(value), CreateRevision: 1000, ModRevision: 1000}})
	if err == nil || !strings.Contains(err.Error(), key) {
		t.Errorf("%s=%s: error %v, want one that names the key", key, value, err)
	}
	demandSame(t, "after "+key+"="+value, m, mirror(t, have))
	if m.Revision != before {
		t.Errorf("%s=%s: revision %d, was %d", key, value, m.Revision, before)
	}
}

// A leader that lives for months remembers the newest deletions only.
func TestMirrorForgetsOldDeletions(t *testing.T) {
	const deletions = 50_000
	m := mirror(t, nil)
	started := func(i int) record.KV {
		key := record.AckKey("n", "j", cluster.Generation(i), record.AckStarted)
		return record.KV{Key: key, Value: []byte("{}"), CreateRevision: int64(2*i + 1), ModRevision: int64(2*i + 1)}
	}
	for i := range deletions {
		change(t, m, record.Change{KV: record.KV{Key: started(i).Key, ModRevision: int64(2*i + 2)}, Deleted: true})
	}
	for i := deletions - 1000; i < deletions; i++ {
		change(t, m, record.Change{KV: started(i)})
	}
	if len(m.Nodes) != 0 {
		t.Errorf("late writes of deleted keys came back: %s", text(t, m))
	}
	change(t, m, record.Change{KV: started(0)})
	if len(m.Nodes) != 1 {
		t.Error("the oldest deletion is remembered: nothing bounds how many are")
	}
}

// The last word of a generation counts where it says more than the record that is written now and then.
func TestReported(t *testing.T) {
	v := &record.NodeView{Acks: map[record.JobGen]*record.Acks{}}
	report := func(g cluster.Generation, step int64) *record.JobProgress {
		return &record.JobProgress{Generation: g, Step: step}
	}
	if _, ok := v.Reported("j", 1, ""); ok {
		t.Error("nothing was said")
	}
	v.Progress.Value.Jobs = map[cluster.JobID]record.JobProgress{"j": *report(1, 7)}
	v.Acks[record.JobGen{"j", 1}] = &record.Acks{Stopped: record.Versioned[record.Stopped]{Value: record.Stopped{Progress: report(1, 9)}, Mod: 1}}
	v.Acks[record.JobGen{"j", 2}] = &record.Acks{Stopped: record.Versioned[record.Stopped]{Value: record.Stopped{}, Mod: 1}}
	v.Acks[record.JobGen{"j", 3}] = &record.Acks{Stopped: record.Versioned[record.Stopped]{Value: record.Stopped{Progress: report(3, 0)}, Mod: 1}}
	for g, want := range map[cluster.Generation]int64{1: 9, 2: -1, 3: 0} {
		if p, ok := v.Reported("j", g, ""); ok != (want >= 0) || ok && (p.Step != want || p.Generation != g) {
			t.Errorf("generation %d: %+v, %t, want step %d", g, p, ok, want)
		}
	}
}

// Specs of before name modules to import early (preload): nothing reads them any more, and the rest is taken in.
func TestSpecsOfOlderVersionsAreRead(t *testing.T) {
	m, err := record.NewMirror([]record.KV{{Key: record.SpecKey("j-aaaaaa"), Value: []byte(`{"name":"j","preload":["torch"],"ready_fd":true,"id":"j-aaaaaa"}`), CreateRevision: 1, ModRevision: 1}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if spec := m.Job("j-aaaaaa").Spec.Value; spec.Name != "j" || !spec.ReadyFD {
		t.Errorf("%+v", spec)
	}
}
