package coordinator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// limitOf reads a time limit; with the first one the story is about them.
func (l *lab) limitOf(w words) cluster.Duration {
	d := valueOf(w, "limit", 0, func(text string) (d cluster.Duration, err error) { return d, d.UnmarshalText([]byte(text)) })
	l.limited = l.limited || d != 0
	return d
}

// do carries out one event of a story. Jobs are named by one letter or word: "j" is job "j-aaaaaa".
func (l *lab) do(line string) error {
	fields := strings.Fields(line)
	w := parse(fields[1:])
	verbs := map[string]func(words) error{
		"node": l.node, "gone": l.gone, "blink": l.blink, "listed": l.listed, "cordon": l.cordon, "uncordon": l.uncordon, "sick": l.sick, "unplug": l.unplug,
		"submit": l.submit, "stop": l.stop, "scale": l.scale, "drain": l.drain, "undrain": l.undrain, "remove": l.remove, "resume": l.resume, "want": l.wants, "onto": l.onto, "advance": l.pass, "failover": l.failover,
		"started": l.started, "held": l.held, "failed": l.failed, "stopped": l.stopped, "cleared": l.cleared, "ready": l.ready, "begun": l.begun, "unready": l.unready, "offer": l.offer, "progress": l.progress,
		"next": l.fate, "arrive": l.arrive, "think": l.think, "hold": l.hold, "release": l.release, "decide": l.decideNow, "repeat": l.repeat, "garbage": l.garbage, "misnamed": l.misnamed, "erase": l.erase,
		"pause": l.pause, "limit": l.limitTxns, "keep": l.keepCheckpoints, "resumable": l.keepResumable, "migrations": l.withMigrations, "events": l.withEvents, "secret": l.withSecret, "unpause": l.unpause, "users": l.userLimits, "timed": l.timedPolicy, "prompt": l.promptPolicy, "promises": l.promisingPolicy, "train": l.train, "forecasts": l.withForecasts,
	}
	verb, ok := verbs[fields[0]]
	if !ok {
		return fmt.Errorf("no verb %q", fields[0])
	}
	if err := errors.Join(verb(w), w.unread()); err != nil {
		return err
	}
	l.watch()
	return nil
}

// node n1 gpus=4 [ports=8] [model=h100] [train=10.9.0.1] [limits=no] [nonces=no] [prepares=no]: comes up, or comes back in another life.
func (l *lab) node(w words) error {
	n := cluster.NodeID(w.arg(0))
	inv := record.Inventory{Addr: w.text("train", ""), Problem: w.text("problem", "")}
	for i := range w.number("gpus", 4) {
		inv.Devices = append(inv.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("%s%c", n, 'a'+i)), Model: w.text("model", ""), Health: cluster.Healthy})
	}
	if _, ok := l.mem.Get(record.AliveKey(n)); ok {
		l.commit(record.Delete(record.AliveKey(n)))
	}
	l.commit(record.Put(record.AliveKey(n), record.Alive{
		Addr: "10.0.0." + strings.TrimLeft(string(n), "n"), Ports: record.Ports{First: 7000, Count: w.number("ports", 8)},
		Limits: !w.is("limits", "no"), NoNewPrivs: w.is("privs", "kept"), Nonces: !w.is("nonces", "no"), Prepares: !w.is("prepares", "no"),
	}), record.Put(record.InventoryKey(n), inv))
	l.says(n, record.NodeJoined)
	l.promise()
	return nil
}

// says lets a node tell of itself.
func (l *lab) says(n cluster.NodeID, kind record.EventKind) {
	if seq := uint64(l.mem.Revision()); l.events {
		l.commit(record.Put(record.NodeEventKey(n, seq), record.Event{Seq: seq, At: l.now, Kind: kind, Node: n}))
	}
}

// promise lets every node that is there and not alone say that it fences itself.
func (l *lab) promise() {
	kvs, _ := l.mem.Range(record.NodesPrefix)
	var alive []record.KV
	for _, kv := range kvs {
		if strings.HasSuffix(kv.Key, "/alive") {
			alive = append(alive, kv)
		}
	}
	for _, kv := range alive {
		key := record.FencingKey(cluster.NodeID(strings.TrimSuffix(strings.TrimPrefix(kv.Key, record.NodesPrefix), "/alive")))
		if f := (record.Fencing{AliveRev: kv.CreateRevision}); len(alive) > 1 && recorded[record.Fencing](l.mem, key) != f {
			l.commit(record.Put(key, f))
		}
	}
}

// drain n1 [why=…] [down=yes]: an operator wants it empty.
func (l *lab) drain(w words) error {
	return l.request(record.Request{
		Kind: record.DrainRequest, Node: cluster.NodeID(w.arg(0)), Reason: w.text("why", ""), Down: w.is("down", "yes"),
	})
}

// scale j [min=2] [max=8] [limit=10m] [uid=1000].
func (l *lab) scale(w words) error {
	l.commit(record.Put(record.RequestKey("n1", fmt.Sprintf("s-%d", l.mem.Revision())), record.Request{
		Kind: record.ScaleRequest, Job: jobID(w.arg(0)), MinWorkers: w.number("min", 0), MaxWorkers: w.number("max", 0), At: l.now, TimeLimit: l.limitOf(w),
		Owner: cluster.Owner{UID: uint32(w.number("uid", 1000)), User: w.text("user", "ann")},
	}))
	return nil
}

// undrain n1.
func (l *lab) undrain(w words) error {
	return l.request(record.Request{Kind: record.UndrainRequest, Node: cluster.NodeID(w.arg(0))})
}

// remove n1 [via=n2]: an operator says that it is gone for good.
func (l *lab) remove(w words) error {
	l.commit(record.Put(record.RequestKey(cluster.NodeID(w.text("via", "n1")), fmt.Sprintf("s-%d", l.mem.Revision())), record.Request{
		Kind: record.RemoveRequest, Node: cluster.NodeID(w.arg(0)), At: l.now, Owner: cluster.Owner{User: "root"},
	}))
	return nil
}

func (l *lab) request(r record.Request) error {
	r.At, r.Owner = l.now, cluster.Owner{User: "root"}
	l.commit(record.Put(record.RequestKey("n1", fmt.Sprintf("s-%d", l.mem.Revision())), r))
	return nil
}

// gone n1 [says=goodbye]: its alive key is no longer there.
func (l *lab) gone(w words) error {
	for _, n := range w.args(0) {
		if w.is("says", "goodbye") {
			l.says(cluster.NodeID(n), record.NodeLeft)
		}
		l.commit(record.Delete(record.AliveKey(cluster.NodeID(n))))
	}
	return nil
}

// blink n1 [word=yes]: it comes back in another life, gives its word for that
// perhaps, and is gone again: the leader hears of all that at once.
func (l *lab) blink(w words) error {
	n := cluster.NodeID(w.arg(0))
	l.commit(record.Put(record.AliveKey(n), record.Alive{Addr: "10.0.0." + strings.TrimLeft(string(n), "n"), Ports: record.Ports{First: 7000, Count: 8}}))
	if kv, _ := l.mem.Get(record.AliveKey(n)); w.is("word", "yes") {
		l.commit(record.Put(record.FencingKey(n), record.Fencing{AliveRev: kv.CreateRevision}))
	}
	l.commit(record.Delete(record.AliveKey(n)))
	return nil
}

// listed [every=10s] [for=1m]: so long and so often everything is read anew.
func (l *lab) listed(w words) error {
	every := w.duration("every", 10*time.Second)
	for end := l.now.Add(w.duration("for", time.Minute)); l.now.Before(end); {
		l.advance(every)
		l.reload()
	}
	return nil
}

func (l *lab) cordon(w words) error {
	l.commit(record.Put(record.CordonKey(cluster.NodeID(w.arg(0))), record.Cordon{Reason: "repair"}))
	return nil
}

func (l *lab) pause(words) error {
	l.commit(record.Put(record.PausedKey, record.Paused{Why: "shut down", At: l.now, SaveSeconds: 8}))
	return nil
}

func (l *lab) unpause(words) error {
	l.commit(record.Delete(record.PausedKey))
	return nil
}

func (l *lab) uncordon(w words) error {
	l.commit(record.Delete(record.CordonKey(cluster.NodeID(w.arg(0)))))
	return nil
}

// sick n1 n1a: the device is unhealthy.
func (l *lab) sick(w words) error { return l.device(w, false) }

// unplug n1 n1a: the device is gone.
func (l *lab) unplug(w words) error { return l.device(w, true) }

func (l *lab) device(w words, gone bool) error {
	key := record.InventoryKey(cluster.NodeID(w.arg(0)))
	inv := recorded[record.Inventory](l.mem, key)
	var left []cluster.Device
	for _, d := range inv.Devices {
		if d.ID == cluster.DeviceID(w.arg(1)) {
			d.Health = cluster.Unhealthy
			if gone {
				continue
			}
		}
		left = append(left, d)
	}
	l.commit(record.Put(key, record.Inventory{Devices: left}))
	return nil
}

func jobID(name string) cluster.JobID {
	if strings.Contains(name, "-") {
		return cluster.JobID(name)
	}
	return cluster.JobID(name + "-aaaaaa")
}

// submit j [workers=1..4] [restarts=3] [uid=1000] [batch=64] [most=256] [priority=0] [via=n1] [id=...] [model=h100] [not=n1] [limit=10m] [cpus=4].
func (l *lab) submit(w words) error {
	id := jobID(w.arg(0))
	name, _, _ := strings.Cut(string(id), "-")
	spec := cluster.Spec{
		Name: name, Command: []string{"train"}, Workdir: "/w", CheckpointDir: "/c", MaxRestarts: w.number("restarts", 3), PerNode: w.is("process", "per-node"),
		Priority: w.number("priority", 0), BatchSize: cluster.BatchSize{Min: w.number("batch", usualBatch), Max: w.number("most", 0)}, TimeLimit: l.limitOf(w),
		Steps: int64(w.number("steps", 0)), Kind: w.text("kind", ""), ETA: cluster.Duration(w.duration("eta", 0)),
	}
	if due := w.duration("deadline", 0); due != 0 {
		at := l.now.Add(due)
		spec.Deadline, spec.OrBestEffort, spec.Grace = &at, w.is("or", "best-effort"), cluster.Duration(w.duration("grace", 0))
	}
	spec.NoNewPrivs = w.is("privs", "none")
	spec.ColdStart = !w.is("start", "warm")
	spec.PerWorker.CPUs = float64(w.number("cpus", 0))
	spec.Where.DeviceModel, spec.Where.PreferModel, spec.Where.MixModels = w.text("model", ""), w.text("prefer", ""), w.is("models", "mixed")
	if n := w.text("on", ""); n != "" {
		spec.Where.Nodes = []cluster.NodeID{cluster.NodeID(n)}
	}
	if n := w.text("not", ""); n != "" {
		spec.Where.Not = []cluster.NodeID{cluster.NodeID(n)}
	}
	bounds := valueOf(w, "workers", [2]int{1, 4}, func(text string) (b [2]int, err error) {
		least, most, _ := strings.Cut(text, "..")
		var err2 error
		b[0], err = strconv.Atoi(least)
		b[1], err2 = strconv.Atoi(most)
		return b, errors.Join(err, err2)
	})
	spec.MinWorkers, spec.MaxWorkers = bounds[0], bounds[1]
	l.commit(record.Put(record.RequestKey(cluster.NodeID(w.text("via", "n1")), w.text("id", "r-"+string(id))), record.Request{
		Kind: record.SubmitRequest, Job: id, Spec: &spec, At: l.now,
		Owner: cluster.Owner{UID: uint32(w.number("uid", 1000)), User: "ann"},
	}))
	return nil
}

// stop j [now] [uid=1000] [id=x].
func (l *lab) stop(w words) error {
	l.commit(record.Put(record.RequestKey("n1", w.text("id", fmt.Sprintf("s-%d", l.mem.Revision()))), record.Request{
		Kind: record.StopRequest, Job: jobID(w.arg(0)), At: l.now, Now: w.has("now"),
		Owner: cluster.Owner{UID: uint32(w.number("uid", 1000)), User: w.text("user", "ann")},
	}))
	return nil
}

// resume j [from=120|start] [limit=1h] [uid=1000] [id=x].
func (l *lab) resume(w words) error {
	r := record.Request{
		Kind: record.ResumeRequest, Job: jobID(w.arg(0)), At: l.now, TimeLimit: l.limitOf(w),
		Owner: cluster.Owner{UID: uint32(w.number("uid", 1000)), User: w.text("user", "ann")},
	}
	if from, ok := w.value("from"); ok {
		step := record.FromStart
		if from != "start" {
			step = int64(w.number("from", 0))
		}
		r.From = &step
	}
	l.commit(record.Put(record.RequestKey("n1", w.text("id", fmt.Sprintf("s-%d", l.mem.Revision()))), r))
	return nil
}

// want j=4 k=2: what the policy answers from now on.
func (l *lab) wants(w words) error {
	for name := range w.named {
		l.want[jobID(name)] = w.number(name, 0)
	}
	return nil
}

// onto j n2: from now on the policy answers that the job's devices are to be on that node.
func (l *lab) onto(w words) error {
	l.onNode[jobID(w.arg(0))] = cluster.NodeID(w.arg(1))
	return nil
}

// advance 12s.
func (l *lab) pass(w words) error {
	d, err := time.ParseDuration(w.arg(0))
	if err == nil {
		l.advance(d)
	}
	return err
}

// failover [ahead=2m] [policy=NAME]: the leader dies and another leads, from the records alone, and perhaps by a clock that is ahead or with another policy.
func (l *lab) failover(w words) error {
	l.now, l.policy = l.now.Add(w.duration("ahead", 0)), w.text("policy", l.policy)
	l.lead(0)
	return nil
}

// next lost|noreply|late|conflict|full [skip=1]: what becomes of the next transaction, or of one after it.
func (l *lab) fate(w words) error {
	l.answer, l.skip = w.arg(0), w.number("skip", 0)
	return nil
}

// arrive: the transactions that are late arrive.
func (l *lab) arrive(words) error {
	for _, t := range l.delayed {
		l.say("%s: %s", l.mem.Commit(t).Result, l.describe(t))
	}
	l.delayed = nil
	return nil
}

// think: the policy takes its time until decide.
func (l *lab) think(words) error {
	l.thinks = true
	return nil
}

// hold: transactions are on their way until release.
func (l *lab) hold(words) error {
	l.holding = true
	return nil
}

// release: they arrive, in order, and so do those that follow.
func (l *lab) release(words) error {
	l.holding = false
	arriving := l.waiting
	l.waiting = nil
	for _, t := range arriving {
		l.execute(t)
	}
	return nil
}

func (l *lab) decideNow(words) error {
	l.thinks = false
	if l.slow == nil {
		return fmt.Errorf("nothing was asked")
	}
	l.decide()
	return nil
}

// repeat: every change there ever was is delivered once more, the newest first.
func (l *lab) repeat(words) error {
	changes, err := l.mem.Changes(0, record.Root)
	if err != nil {
		return err
	}
	for _, c := range slices.Backward(changes) {
		l.step(coordinator.Changed{Changes: []record.Change{c}})
	}
	return nil
}

// events: a leader takes over that writes them, and nodes do, too.
func (l *lab) withEvents(words) error {
	l.events = true
	l.lead(0)
	return nil
}

// keep 2: a leader takes over that keeps so many checkpoints of a job.
func (l *lab) keepCheckpoints(w words) error {
	n, err := strconv.Atoi(w.arg(0))
	if err == nil {
		l.keep = n
		l.lead(0)
	}
	return err
}

// migrations 1: a leader takes over that may move so many running jobs in an interval for others.
func (l *lab) withMigrations(w words) error {
	n, err := strconv.Atoi(w.arg(0))
	if err == nil {
		l.migrations = n
		l.lead(0)
	}
	return err
}

// resumable 2: a leader takes over that keeps so many jobs to be resumed.
func (l *lab) keepResumable(w words) error {
	n, err := strconv.Atoi(w.arg(0))
	if err == nil {
		l.resumable = n
		l.lead(0)
	}
	return err
}

// limit 8: etcd takes so many operations in a transaction, and a leader that knows it takes over.
func (l *lab) limitTxns(w words) error {
	n, err := strconv.Atoi(w.arg(0))
	if err == nil {
		l.limit, l.mem.MaxTxnOps = n, max(n, coordinator.LeastTxnOps)
		l.lead(0)
	}
	return err
}

// secret x: a leader takes over that gives plans a nonce.
func (l *lab) withSecret(w words) error {
	l.secret = w.arg(0)
	l.lead(l.without)
	return nil
}

// timed: a leader takes over whose policy answers otherwise as time passes.
func (l *lab) timedPolicy(words) error {
	l.timed = true
	l.lead(l.without)
	return nil
}

// prompt: a leader takes over whose policy is asked when jobs and nodes come and go, and answers otherwise as time passes.
func (l *lab) promptPolicy(words) error {
	l.timed, l.prompt = true, true
	l.lead(l.without)
	return nil
}

// promises elasticflow [interval=1m]: a leader takes over whose policy is this one, and promises deadlines.
func (l *lab) promisingPolicy(w words) error {
	p, err := policy.ByName(w.arg(0))
	if err != nil {
		return err
	}
	l.interval = w.duration("interval", 10*time.Second)
	l.policy, l.real, l.timed, l.prompt = p.Name(), p, !allocator.IsTimeless(p), allocator.IsPrompt(p)
	l.lead(l.without)
	return nil
}

// garbage KEY: a value that cannot be decoded is written.
func (l *lab) garbage(w words) error {
	l.commit(record.Op{Key: record.Root + w.arg(0), Value: []byte("?")})
	return nil
}

// misnamed j [gen=7] [as=k] [without=n2] [lives=none] [gone=yes]: the plan of its newest generation says
// that it is of another, does not name a node, or is deleted.
func (l *lab) misnamed(w words) error {
	id := jobID(w.arg(0))
	key := record.PlanKey(id, recorded[record.State](l.mem, record.StateKey(id)).Generation)
	plan := recorded[record.Plan](l.mem, key)
	plan.World.Generation = cluster.Generation(w.number("gen", int(plan.World.Generation)))
	plan.World.Job = jobID(w.text("as", string(id)))
	if w.is("lives", "none") {
		for i := range plan.World.Members {
			plan.World.Members[i].AliveRev = 0
		}
	}
	without := cluster.NodeID(w.text("without", ""))
	plan.World.Members = slices.DeleteFunc(plan.World.Members, func(m cluster.Member) bool { return m.Node == without })
	if w.is("gone", "yes") {
		l.commit(record.Delete(key))
		return nil
	}
	l.commit(record.Put(key, plan))
	return nil
}

// erase j: all records of the job are deleted by hand.
func (l *lab) erase(w words) error {
	l.commit(record.DeletePrefix(record.JobPrefix(jobID(w.arg(0)))))
	return nil
}

func recorded[T any](mem *record.Memory, key string) T {
	var v T
	if kv, ok := mem.Get(key); ok {
		if err := json.Unmarshal(kv.Value, &v); err != nil {
			panic(err)
		}
	}
	return v
}
