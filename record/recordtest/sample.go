package recordtest

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// Sample is the records of a cluster of two nodes, n1 and n2, with a job in each
// phase; those that are at work have workers on both.
func Sample(now time.Time) []record.KV {
	var ops []record.Op
	put := func(key string, v any) { ops = append(ops, record.Put(key, v)) }
	put(record.MetaKey, record.Meta{Format: record.Format, Cluster: "sample"})
	put(record.LeaderPrefix+"1", record.Leader{Node: "n1", Since: now})
	put(record.JobKindKey(1000, "train"), record.JobKind{At: now, Job: "running-aaaaaa", Jobs: 2, Points: []record.SpeedPoint{point}, Starts: []record.StartPoint{{Generation: 1, Workers: 2, Seconds: 20}}})
	put(record.EventKey(1), record.Event{Seq: 1, At: now, Kind: record.LeaderChanged, By: "n1", Why: reason.Of(reason.New(reason.Leads))})
	nodes := []cluster.NodeID{"n1", "n2"}
	phases := cluster.Phases()
	for _, n := range nodes {
		inventory := record.Inventory{}
		for i := range phases {
			inventory.Devices = append(inventory.Devices, cluster.Device{ID: device(n, i), Model: "h100", Health: cluster.Healthy, MemoryBytes: 1 << 30})
		}
		put(record.AliveKey(n), record.Alive{
			Incarnation: "i", BootID: "b", Addr: "10.0.0.1", Gossip: "10.0.0.1:7946", API: "unix:/s", Version: "v", Nonces: true, Ports: record.Ports{First: 7000, Count: 9},
		})
		put(record.InventoryKey(n), inventory)
		put(record.CordonKey(n), record.Cordon{Reason: "repair", At: now})
		put(record.NodeEventKey(n, 1), record.Event{Seq: 1, At: now, Kind: record.NodeJoined, Node: n})
	}
	progress := map[cluster.JobID]record.JobProgress{}
	problems := map[cluster.JobID]record.Problem{}
	for i, phase := range phases {
		j := sampled{id: cluster.JobID(fmt.Sprintf("%s-aaaaaa", phase)), index: i, phase: phase, now: now, put: put}
		j.records(nodes)
		loss := 1.5
		progress[j.id] = record.JobProgress{Generation: 2, Step: 90, Samples: 9, Loss: &loss, FirstStep: 61, FirstAt: now.Add(-15 * time.Second), StepsPerSecond: 2, At: now, Nonce: nonce}
		problems[j.id] = record.Problem{Generation: 2, Text: "little room", At: now}
	}
	put(record.ProgressKey("n1"), record.Progress{Jobs: progress, Problems: problems})
	spec := cluster.Spec{Name: "new", Command: []string{"train"}, Workdir: "/w", CheckpointDir: "/c"}.WithDefaults()
	put(record.RequestKey("n1", "r1"), record.Request{Kind: record.SubmitRequest, Job: "new-aaaaaa", Spec: &spec, At: now})
	put(record.RequestKey("n1", "r2"), record.Request{Kind: record.StopRequest, Job: "running-aaaaaa", At: now})
	kvs := make([]record.KV, len(ops))
	for i, op := range ops {
		kvs[i] = record.KV{Key: op.Key, Value: op.Value, CreateRevision: int64(i + 1), ModRevision: int64(i + 1)}
	}
	return kvs
}

const nonce = "k7qz2mxw4fba"

func device(n cluster.NodeID, i int) cluster.DeviceID {
	return cluster.DeviceID(fmt.Sprintf("%s-%d", n, i))
}

// sampled is one job.
type sampled struct {
	id    cluster.JobID
	index int // which of its nodes' devices it has
	phase cluster.Phase
	now   time.Time
	put   func(key string, v any)
}

var point = record.SpeedPoint{Workers: 2, Nodes: 2, Model: "h100", Batch: 64, StepsPerSecond: 2, Low: 1.8, High: 2.1, Windows: 9, Generation: 2}

func (j sampled) records(nodes []cluster.NodeID) {
	spec := cluster.Spec{Name: string(j.phase), Command: []string{"train", "-v"}, Workdir: "/w", CheckpointDir: "/c", Steps: 400, TimeLimit: cluster.Duration(time.Hour)}.WithDefaults()
	j.put(record.SpecKey(j.id), record.Submitted{Spec: spec, ID: j.id, Owner: cluster.Owner{UID: 1000, User: "ann"}, At: j.now})
	j.put(record.WantedKey(j.id), record.Wanted{Run: true, At: j.now})
	failure := &record.Failed{Kind: record.WorkerFailed, Reason: "exit status 1", LogTail: []string{"oops"}, At: j.now}
	j.put(record.StateKey(j.id), record.State{Phase: j.phase, Generation: 2, Reason: reason.Said("so it is"), Since: j.now, Failure: failure})
	saved := record.Checkpoint{Generation: 1, Step: 50, Samples: 5, Dir: "/c/" + string(j.id) + "/g00000001/step-50", ManifestSHA256: "5a", WorldSize: 2, Bytes: 100}
	j.put(record.CommittedKey(j.id), saved)
	j.put(record.CheckpointKey(j.id, 50), saved)
	j.put(record.BadCheckpointKey(j.id, 40), record.BadCheckpoint{Checkpoint: saved, Reason: reason.Said("damaged"), At: j.now})
	j.put(record.SpeedKey(j.id), record.Speed{
		Generation: 2, At: j.now, Step: 90, Samples: 9, Points: []record.SpeedPoint{point}, Starts: []record.StartPoint{{Generation: 2, Workers: 2, Seconds: 21}},
		Curve: []record.CurvePoint{{Workers: 2, StepsPerSecond: 2, Measured: true}}, UsefulS: 50, TrainedS: 60, Problem: "ranks disagree",
		Prediction: &record.Prediction{RemainingS: 155, End: j.now.Add(155 * time.Second), Low: j.now.Add(150 * time.Second), High: j.now.Add(170 * time.Second)},
	})
	j.put(record.RescaleKey(j.id, 2), record.Rescale{Generation: 2, From: 1, To: 2, At: j.now, OwnS: 0.4})
	world := cluster.World{Job: j.id, Generation: 2, Nonce: nonce, Master: cluster.Endpoint{Host: "10.0.0.1", Port: 7001}, BatchSize: 64}
	for rank, n := range nodes {
		world.Members = append(world.Members, cluster.Member{Node: n, AliveRev: 4, Devices: []cluster.DeviceID{device(n, j.index)}, FirstRank: rank})
	}
	j.put(record.PlanKey(j.id, 2), record.Plan{World: world, Resume: &saved, Why: reason.Said("start"), At: j.now})
	j.put(record.PermitKey(j.id, 2), record.Permit{At: j.now})
	stop := int64(91)
	j.put(record.HaltKey(j.id, 2), record.Halt{Why: reason.Said("stopped"), Save: true, Deadline: j.now.Add(time.Minute), StopAfter: &stop, At: j.now})
	j.put(record.FenceKey(j.id, 2, "n2"), record.Fence{AliveRev: 4, WaitedMS: 12000, At: j.now})
	for rank, n := range nodes {
		j.put(record.GrantKey(n, j.id), record.Grant{Generation: 2, Devices: world.Members[rank].Devices})
		ack := func(a record.Ack, v any) { j.put(record.AckKey(n, j.id, 2, a), v) }
		ack(record.AckStarted, record.Started{Workers: []record.Worker{{Rank: rank, PID: 1, StartTime: 1}}, ExecedAt: j.now, Nonce: nonce})
		ack(record.AckHeld, record.Held{SDK: true, Begun: 90, At: j.now, Nonce: nonce})
		ack(record.AckFailed, record.Failed{Kind: record.WorkerFailed, Rank: rank, Reason: "exit status 1", At: j.now, Nonce: nonce})
		ack(record.AckStopped, record.Stopped{Exits: []record.Exit{{Rank: rank, Code: 1}}, ExitedAt: j.now, Nonce: nonce})
		files := []record.File{{Path: fmt.Sprintf("rank-%05d/model", rank), Bytes: 9, SHA256: "5a"}}
		j.put(record.SavedKey(n, j.id, 2, 60), record.Saved{Dir: "/c/x", Ranks: []int{rank}, Files: files, At: j.now, Nonce: nonce})
		j.put(record.OfferKey(n, j.id, 2, 60), record.Offer{Checkpoint: saved, At: j.now, Nonce: nonce})
	}
}
