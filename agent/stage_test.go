package agent_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
)

// dawn is what the wall clock shows when a story begins.
var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// slowly is how long an action takes that a story wants to be slow.
const slowly = 5 * time.Second

// stage is node n1, the only one of a cluster unless the story says otherwise, with
// an etcd into which the story writes what the leader and other nodes would.
type stage struct {
	net    *machine.Network
	m      *machine.Machine
	crowd  int
	plans  map[record.JobGen]record.Plan
	said   []string
	pushed map[record.JobGen]string

	slow        map[string]bool // kinds of actions
	shimless    map[record.JobGen]*record.Failed
	broken      map[record.JobGen]string
	unmergeable map[record.JobGen]string
	unkillable  map[record.JobGen]bool
	plain       map[cluster.JobID]bool // scripts that know nothing of the SDK
	damaged     bool

	unpreparable, unbindable map[record.JobGen]string

	backup *record.Memory // of etcd
}

func newStage() *stage {
	s := &stage{
		net: machine.NewNetwork(), crowd: 1, plans: map[record.JobGen]record.Plan{},
		pushed: map[record.JobGen]string{}, slow: map[string]bool{}, shimless: map[record.JobGen]*record.Failed{},
		broken: map[record.JobGen]string{}, unmergeable: map[record.JobGen]string{}, unpreparable: map[record.JobGen]string{}, unbindable: map[record.JobGen]string{}, unkillable: map[record.JobGen]bool{}, plain: map[cluster.JobID]bool{},
	}
	s.m = machine.New(machine.Config{
		Node: "n1", Dawn: dawn, Leases: s.net.Memory, Crowd: func() int { return s.crowd }, Script: s, Outside: s.net,
		Faults: machine.Faults{
			Begun: s.begins,
			Takes: s.takes,
			Shimless: func(jg record.JobGen) *record.Failed {
				defer delete(s.shimless, jg)
				return s.shimless[jg]
			},
			Reacts: func() time.Duration {
				if s.slow["agent"] {
					return slowly
				}
				return 0
			},
			Damaged:      func(record.Checkpoint) bool { return s.damaged },
			Lost:         func(d agent.Digest) string { return s.broken[d.Of()] },
			Unpreparable: func(jg record.JobGen) string { return s.unpreparable[jg] },
			Unbindable:   func(jg record.JobGen) string { return s.unbindable[jg] },
			Unmergeable:  func(a agent.Merge) string { return s.unmergeable[a.Of()] },
			Dies: func(shim *machine.Shim) time.Duration {
				if s.unkillable[shim.JobGen] {
					return -1
				}
				return 0
			},
		},
	})
	s.net.Connect(s.m)
	s.net.Pass(time.Second)
	return s
}

// takes is how long an action takes: no time, if the story does not want it to be slow.
func (s *stage) takes(a agent.Action) time.Duration {
	if s.slow[strings.ToLower(reflect.TypeOf(a).Name())] {
		return slowly
	}
	return 0
}

// shim is the newest of a generation of which a process is left.
func (s *stage) shim(jg record.JobGen) *machine.Shim {
	for _, shim := range slices.Backward(s.m.Shims()) {
		if shim.JobGen == jg {
			return shim
		}
	}
	panic(fmt.Sprintf("nothing of %s/%d runs", jg.Job, jg.Generation))
}

func (s *stage) write(ops ...record.Op) {
	if out := s.net.Commit(record.Txn{ID: "story", Then: ops}); out.Result != record.Applied {
		panic(fmt.Sprintf("%v: %v", ops, out.Err))
	}
}

// plan has the leader plan a generation: plan JOB/GEN [nonce=N] [resume=STEP] [cold=WHY] NODE*DEVICES …
func (s *stage) plan(jg record.JobGen, words []string) {
	plan := record.Plan{World: cluster.World{Job: jg.Job, Generation: jg.Generation, BatchSize: 8}}
	rank := 0
	var own []cluster.DeviceID
	for _, word := range words {
		if step, ok := strings.CutPrefix(word, "resume="); ok {
			plan.Resume = &record.Checkpoint{Step: number(step)}
			continue
		}
		if nonce, ok := strings.CutPrefix(word, "nonce="); ok {
			plan.World.Nonce = nonce
			continue
		}
		if why, ok := strings.CutPrefix(word, "cold="); ok {
			plan.Cold = why
			continue
		}
		node, count, _ := strings.Cut(word, "*")
		node, life, stale := strings.Cut(node, "@")
		member := cluster.Member{Node: cluster.NodeID(node), AliveRev: 1, FirstRank: rank}
		if member.Node == s.m.Node {
			member.AliveRev = s.net.Records().Node(s.m.Node).Alive.Create
		}
		if stale {
			member.AliveRev = number(life)
		}
		for range number(count) {
			member.Devices = append(member.Devices, cluster.DeviceID(fmt.Sprintf("%s-%d", jg.Job, rank)))
			rank++
		}
		if member.Node == s.m.Node {
			own = member.Devices
		}
		plan.World.Members = append(plan.World.Members, member)
	}
	s.plans[jg] = plan
	ops := []record.Op{
		record.Put(record.SpecKey(jg.Job), submitted(jg.Job)),
		record.Put(record.PlanKey(jg.Job, jg.Generation), plan), record.Put(record.PermitKey(jg.Job, jg.Generation), record.Permit{}),
	}
	if len(own) > 0 {
		s.equip(own)
		ops = append(ops, record.Put(record.GrantKey(s.m.Node, jg.Job), record.Grant{Generation: jg.Generation, Devices: own}))
	}
	s.write(ops...)
}

func submitted(job cluster.JobID) record.Submitted {
	return record.Submitted{ID: job, Spec: cluster.Spec{CheckpointDir: "/ck"}}
}

// equip has the driver show the devices.
func (s *stage) equip(devices []cluster.DeviceID) {
	for _, id := range devices {
		known := false
		for _, d := range s.m.Devices {
			known = known || d.ID == id
		}
		if !known {
			s.m.Devices = append(s.m.Devices, cluster.Device{ID: id, Health: cluster.Healthy})
		}
	}
}

// Run, Hold, Stop and Terminate implement machine.Script: workers do what the story says.
func (s *stage) Run(shim *machine.Shim) {
	if !s.plain[shim.Job] {
		shim.Connect()
	}
}

func (s *stage) Hold(*machine.Shim)        {}
func (s *stage) Stop(*machine.Shim, int64) {}
func (s *stage) Terminate(*machine.Shim)   {}

func member(node string) func(cluster.Member) bool {
	return func(m cluster.Member) bool { return string(m.Node) == node }
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func named(s string) record.JobGen {
	job, g, _ := strings.Cut(s, "/")
	return record.JobGen{Job: cluster.JobID(job), Generation: cluster.Generation(number(g))}
}
