package coordinator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// tally counts what storms did, each by its effect: that storms pass says
// something only about what happened in them.
type tally map[string]int

func (s *storm) did(what string) { s.tally[what]++ }

// didOf counts what is seen again and again of one generation once: a few that last long
// would otherwise be most of the count, and hide how often the thing happens.
func (s *storm) didOf(jg record.JobGen, what string) {
	if key := fmt.Sprint(jg, what); !s.counted[key] {
		s.counted[key] = true
		s.did(what)
	}
}

// count counts what one change in etcd shows.
func (s *storm) count(c record.Change) {
	rest, ofNode := strings.CutPrefix(c.Key, record.NodesPrefix)
	if !ofNode {
		s.countJob(c)
		return
	}
	name, what, _ := strings.Cut(rest, "/")
	v := s.mirror.Node(cluster.NodeID(name))
	switch kind, _, _ := strings.Cut(what, "/"); {
	case kind == "alive" && c.Deleted:
		for _, n := range s.nodes {
			if early := n.Life() != 0 && s.now < n.Renewed()+fence.TTL; n.Node == v.ID && early && !n.Reaches() {
				s.did("lease revoked unseen")
			} else if n.Node == v.ID && early {
				s.did("lease revoked")
			}
		}
	case c.Deleted:
	case kind == "cordon" && v.Cordon.Value.Down:
		s.did("node called down")
	case kind == "cordon" && v.Cordon.Value.Drain:
		s.did("node drained")
	case kind == "cordon":
		s.did("node cordoned")
	case kind == "inventory" && slices.ContainsFunc(v.Inventory.Value.Devices, func(d cluster.Device) bool { return d.Health == cluster.Unhealthy }):
		s.did("device sick")
	case strings.HasSuffix(what, "/"+string(record.AckFailed)):
		var f record.Failed
		if err := json.Unmarshal(c.Value, &f); err != nil {
			s.fault("%s: %v", c.Key, err)
		}
		s.did("failed: " + string(f.Kind))
	case strings.HasSuffix(what, "/"+string(record.AckStopped)):
		at := record.Locate(c.Key)
		s.countUnkillable(v, record.JobGen{Job: at.Job, Generation: at.Generation})
	case kind == "offer":
		jg := s.offered(c)
		if s.mirror.Job(jg.Job).State.Value.Generation != jg.Generation {
			s.did("offer of an old generation")
		}
	}
}

// offered returns whose offer a change is.
func (s *storm) offered(c record.Change) record.JobGen {
	var o record.Offer
	if err := json.Unmarshal(c.Value, &o); err != nil {
		s.fault("%s: %v", c.Key, err)
	}
	parts := strings.Split(c.Key, "/offer/")
	job, _, _ := strings.Cut(parts[len(parts)-1], "/")
	return record.JobGen{Job: cluster.JobID(job), Generation: o.Generation}
}

func (s *storm) countJob(c record.Change) {
	if c.Key == record.PausedKey && !c.Deleted {
		s.did("pause")
	}
	rest, ofJob := strings.CutPrefix(c.Key, record.JobsPrefix)
	if !ofJob || c.Deleted {
		return
	}
	job, what, _ := strings.Cut(rest, "/")
	v := s.mirror.Job(cluster.JobID(job))
	switch {
	case strings.HasSuffix(what, "/plan"):
		p := v.Generation(v.State.Value.Generation).Plan.Value
		if p.From > 0 && p.From != p.World.Size() {
			s.did("rescale")
		}
		if forOthers(v.State.Value.Reason) {
			s.did("moved")
			if slices.ContainsFunc(s.mirror.Node(p.World.Members[0].Node).Inventory.Value.Devices, func(d cluster.Device) bool { return d.Group != "" }) {
				s.did("moved among groups")
			}
		}
		if p.Resume != nil {
			s.did("start from a checkpoint")
		}
		if s.leader().clock().Sub(s.clock()).Abs() > time.Minute {
			s.did("start by a skewed clock")
		}
		if p.Doubted {
			s.did("start in doubt")
		}
	case what == "state":
		s.did("state " + string(v.State.Value.Phase))
		for text, name := range map[string]string{"not stopped in time, killed": "save cut short", "the cluster is paused": "halted for a pause", "time limit": "time limit met"} {
			if strings.Contains(v.State.Value.Reason, text) && (v.State.Value.Phase == cluster.Halting || v.State.Value.Phase.Terminal()) {
				s.didOf(record.JobGen{Job: v.ID, Generation: v.State.Value.Generation}, name)
			}
		}
	case strings.HasSuffix(what, "/halt") && c.CreateRevision == c.ModRevision:
		s.checkMove(v)
	case strings.HasPrefix(what, "checkpoint/bad/"):
		s.did("checkpoint given up")
	case what == "wanted" && !v.Wanted.Value.Run && v.Wanted.Value.Now:
		s.did("stop at once")
	}
}

// countQuestion counts how a term goes on where the one before has asked within an
// interval: the first full question waits, or a halt lets it come at once.
func (l *simLeader) countQuestion(in allocator.Input) {
	s := l.s
	if in.Between || l.led {
		return
	}
	l.led = true
	last := s.mirror.Decision.Value.Asked
	switch now := l.clock(); {
	case len(s.leaders) == 1 || now.Sub(last) > askEvery+time.Second || now.Before(last):
	case now.Sub(last) >= askEvery:
		s.did("asked in rhythm")
	default:
		s.did("asked at once")
	}
}

// suite is a kind of storms.
type suite struct {
	name string
	of   func(*storm) bool
}

var suites = []suite{
	{"orderly", func(s *storm) bool { return !s.lossy }},
	{"lossy", func(s *storm) bool { return s.lossy }},
	{"few operations", func(s *storm) bool { return s.ops > 0 }},
	{"brief", func(s *storm) bool { return s.brief }},
	{"skewed", func(s *storm) bool { return s.skewed }},
	{"alone at first", func(s *storm) bool { return s.alone }},
}

// add adds what a storm did to the tally of each suite that it is of.
func add(all map[string]tally, s *storm) {
	for _, u := range suites {
		if !u.of(s) {
			continue
		}
		if all[u.name] == nil {
			all[u.name] = tally{}
		}
		all[u.name]["storms"]++
		for what, n := range s.tally {
			all[u.name][what] += n
		}
		if s.tally["txn fence"] > 0 {
			all[u.name]["storms with a fence"]++
		}
	}
}

// leastOf is how many storms the floors are for: those that run by default.
const leastOf = 300

// floors are how often each suite does each thing at least, in the order of suites: a third
// of what it does as this is written. 0 = it is too rare there, or cannot be, and why.
var floors = []struct {
	what  string
	least [6]int
	why   string // one of them is 0
}{
	{"agent down", [6]int{508, 479, 329, 233, 229, 179}, ""},
	{"agent's answer lost", [6]int{85, 59, 48, 30, 23, 28}, ""},
	{"answer lost", [6]int{153, 151, 101, 67, 63, 76}, ""},
	{"asked in rhythm", [6]int{6, 7, 5, 3, 2, 4}, ""},
	{"asked at once", [6]int{6, 5, 2, 2, 0, 4}, "leaders whose clocks differ by minutes seldom know that they ask soon"},
	{"checkpoint damaged", [6]int{30, 29, 19, 13, 12, 13}, ""},
	{"checkpoint given up", [6]int{21, 16, 10, 8, 7, 7}, ""},
	{"damaged checkpoint loaded", [6]int{13, 12, 8, 5, 6, 5}, ""},
	{"device sick", [6]int{34, 30, 24, 14, 11, 15}, ""},
	{"etcd restored", [6]int{28, 25, 16, 11, 13, 10}, ""},
	{"events together", [6]int{10673, 10724, 7664, 4830, 3537, 5768}, ""},
	{"failed: checkpoint", [6]int{41, 32, 21, 17, 13, 16}, ""},
	{"failed: node", [6]int{27, 32, 21, 13, 12, 15}, ""},
	{"failed: space", [6]int{9, 11, 8, 4, 4, 4}, ""},
	{"failed: transient", [6]int{7, 13, 7, 5, 3, 7}, ""},
	{"failed: worker", [6]int{85, 69, 49, 35, 32, 27}, ""},
	{"fate: agent dies", [6]int{30, 37, 24, 16, 15, 17}, ""},
	{"fate: device sick", [6]int{30, 39, 25, 16, 13, 23}, ""},
	{"fate: disk misread", [6]int{68, 73, 42, 26, 33, 31}, ""},
	{"fate: leader deposed", [6]int{30, 34, 21, 12, 13, 16}, ""},
	{"fate: leader dies", [6]int{28, 28, 18, 12, 10, 16}, ""},
	{"fate: leader freezes", [6]int{35, 34, 20, 13, 16, 15}, ""},
	{"fate: etcd restored", [6]int{72, 65, 44, 25, 29, 29}, ""},
	{"fate: lease revoked", [6]int{35, 39, 25, 14, 14, 20}, ""},
	{"fate: lease revoked unseen", [6]int{29, 32, 22, 12, 15, 15}, ""},
	{"fate: node cordoned", [6]int{36, 33, 26, 13, 11, 18}, ""},
	{"fate: node cut off", [6]int{71, 66, 45, 26, 27, 33}, ""},
	{"fate: node lost", [6]int{41, 38, 26, 13, 15, 19}, ""},
	{"fate: node refuses", [6]int{59, 75, 47, 30, 26, 40}, ""},
	{"fate: node scrapped", [6]int{34, 35, 27, 14, 15, 16}, ""},
	{"fate: pause", [6]int{34, 34, 20, 15, 12, 18}, ""},
	{"fate: resume", [6]int{35, 34, 24, 14, 15, 16}, ""},
	{"fate: scale", [6]int{34, 30, 20, 15, 11, 16}, ""},
	{"fate: stop", [6]int{66, 67, 41, 22, 26, 33}, ""},
	{"fate: worker fails", [6]int{71, 61, 45, 27, 29, 25}, ""},
	{"fate: worker out of memory", [6]int{38, 32, 24, 13, 13, 15}, ""},
	{"fate: worker unkillable", [6]int{33, 31, 26, 13, 14, 14}, ""},
	{"generation lost with etcd", [6]int{58, 39, 35, 19, 23, 12}, ""},
	{"grants of a lost timeline refused", [6]int{4, 2, 2, 1, 1, 1}, ""},
	{"halted for a pause", [6]int{12, 6, 5, 2, 2, 3}, ""},
	{"leader deposed unawares", [6]int{35, 36, 23, 14, 16, 17}, ""},
	{"leader died", [6]int{27, 28, 18, 12, 10, 15}, ""},
	{"leader frozen out", [6]int{25, 24, 15, 8, 9, 12}, ""},
	{"lease revoked", [6]int{27, 22, 17, 10, 9, 10}, ""},
	{"lease revoked unseen", [6]int{22, 23, 15, 10, 10, 10}, ""},
	{"listing", [6]int{2907, 3117, 2255, 1182, 1173, 1685}, ""},
	{"machine down", [6]int{9208, 5188, 4836, 5911, 1334, 2423}, ""},
	{"machine lost for a time", [6]int{41, 38, 26, 13, 15, 19}, ""},
	{"moved", [6]int{9, 9, 8, 2, 2, 6}, ""},
	{"moved among groups", [6]int{4, 5, 4, 1, 1, 3}, ""},
	{"news dropped", [6]int{0, 368, 136, 89, 134, 196}, "only lossy storms lose news"},
	{"news repeated", [6]int{0, 514, 188, 114, 211, 251}, "only lossy storms repeat news"},
	{"node called down", [6]int{7, 8, 7, 4, 2, 5}, ""},
	{"node cordoned", [6]int{18, 14, 13, 5, 5, 7}, ""},
	{"node cut off", [6]int{1725, 2803, 1475, 825, 697, 1958}, ""},
	{"node drained", [6]int{23, 21, 17, 9, 7, 12}, ""},
	{"offer late", [6]int{80, 62, 43, 33, 34, 18}, ""},
	{"offer of an old generation", [6]int{35, 30, 19, 14, 19, 8}, ""},
	{"out of memory", [6]int{55, 44, 33, 25, 19, 17}, ""},
	{"out of memory in the largest world", [6]int{44, 33, 22, 19, 17, 9}, ""},
	{"overtaken write refused", [6]int{86, 84, 63, 34, 33, 41}, ""},
	{"pause", [6]int{9, 8, 4, 3, 3, 4}, ""},
	{"policy refused", [6]int{87, 92, 67, 42, 27, 55}, ""},
	{"progress late", [6]int{239, 171, 143, 99, 79, 66}, ""},
	{"rescale", [6]int{93, 84, 58, 33, 38, 38}, ""},
	{"SIGKILL survived", [6]int{8, 5, 4, 2, 2, 2}, ""},
	{"save cut short", [6]int{19, 35, 17, 7, 6, 29}, ""},
	{"shim kills by itself", [6]int{23, 18, 14, 8, 8, 7}, ""},
	{"sound checkpoint misread", [6]int{5, 4, 2, 2, 2, 0}, "the node with the bad disk is alone, and then cut off, so that it seldom verifies"},
	{"stale leader refused", [6]int{2525, 2048, 1739, 900, 720, 1172}, ""},
	{"start by a skewed clock", [6]int{0, 172, 64, 0, 172, 0}, "clocks differ in skewed storms, which are lossy, keep what has ended for days, and have no node alone"},
	{"start from a checkpoint", [6]int{278, 219, 158, 111, 100, 93}, ""},
	{"start in doubt", [6]int{72, 56, 40, 33, 24, 24}, ""},
	{"state backoff", [6]int{100, 80, 58, 41, 38, 31}, ""},
	{"state held", [6]int{18, 20, 15, 8, 6, 10}, ""},
	{"state stopped", [6]int{30, 36, 22, 11, 15, 17}, ""},
	{"state succeeded", [6]int{120, 130, 88, 53, 47, 70}, ""},
	{"stop at once", [6]int{11, 12, 7, 3, 5, 6}, ""},
	{"stopped beside an unkillable process", [6]int{4, 2, 2, 1, 1, 1}, ""},
	{"storms with a fence", [6]int{16, 13, 12, 7, 6, 5}, ""},
	{"takeover", [6]int{88, 89, 56, 34, 36, 44}, ""},
	{"thawed leader goes by a lost timeline", [6]int{16, 17, 13, 7, 10, 5}, ""},
	{"time limit met", [6]int{11, 9, 8, 4, 4, 4}, ""},
	{"transaction late", [6]int{155, 153, 113, 66, 54, 84}, ""},
	{"transaction lost", [6]int{153, 133, 105, 64, 49, 75}, ""},
	{"txn collect", [6]int{155, 120, 89, 66, 55, 47}, ""},
	{"txn commit", [6]int{509, 527, 364, 221, 212, 262}, ""},
	{"txn cordon", [6]int{12, 11, 11, 5, 3, 6}, ""},
	{"txn exclude", [6]int{0, 8, 4, 0, 3, 4}, "too rare: a node refuses after the halt that another's refusal has begun"},
	{"txn expire", [6]int{31, 35, 23, 67, 0, 19}, "skewed storms are shorter than what has ended is kept"},
	{"txn fall-back", [6]int{20, 16, 10, 8, 7, 7}, ""},
	{"txn fence", [6]int{27, 22, 21, 12, 10, 8}, ""},
	{"txn grant", [6]int{26, 22, 48, 12, 9, 10}, ""},
	{"txn give-up-size", [6]int{6, 5, 4, 2, 2, 2}, ""},
	{"txn halt", [6]int{483, 433, 312, 195, 187, 199}, ""},
	{"txn kind", [6]int{76, 90, 63, 36, 33, 49}, ""},
	{"txn shorten", [6]int{21, 21, 14, 11, 7, 12}, ""},
	{"txn kill", [6]int{21, 37, 18, 8, 6, 30}, ""},
	{"txn readmit", [6]int{3, 5, 3, 2, 1, 3}, ""},
	{"txn queue", [6]int{139, 120, 91, 57, 47, 58}, ""},
	{"txn remove", [6]int{11, 10, 7, 4, 3, 5}, ""},
	{"txn resume", [6]int{8, 8, 5, 1, 4, 3}, ""},
	{"txn scale", [6]int{30, 25, 18, 14, 9, 13}, ""},
	{"txn resolve", [6]int{23, 25, 17, 8, 11, 12}, ""},
	{"txn speed", [6]int{182, 219, 151, 95, 76, 115}, ""},
	{"txn start", [6]int{612, 563, 405, 250, 235, 267}, ""},
	{"txn stop-after", [6]int{134, 111, 83, 57, 48, 51}, ""},
	{"txn suspect", [6]int{20, 14, 9, 8, 5, 7}, ""},
	{"txn terminate", [6]int{91, 68, 55, 26, 33, 29}, ""},
	{"txn unfenced", [6]int{0, 26, 6, 4, 0, 26}, "the node that fences nothing is one that is alone at first, in lossy storms whose clocks do not differ"},
	{"txn want-stop", [6]int{20, 27, 13, 6, 11, 13}, ""},
	{"generation prepared", [6]int{264, 244, 198, 115, 93, 124}, ""},
	{"warm start", [6]int{40, 45, 36, 20, 15, 26}, ""},
	{"cold start of a prepared run", [6]int{12, 6, 7, 5, 2, 2}, ""},
	{"prepared to start cold", [6]int{29, 18, 17, 12, 8, 5}, ""},
	{"launcher lost", [6]int{26, 13, 14, 6, 7, 5}, ""},
	{"prepared shim lost", [6]int{28, 16, 17, 10, 6, 7}, ""},
	{"cannot be prepared", [6]int{8, 7, 7, 3, 3, 3}, ""},
	{"txn prepare", [6]int{381, 334, 264, 150, 132, 169}, ""},
	{"worker failed", [6]int{21, 14, 11, 6, 8, 5}, ""},
}

// checkTally: every suite did enough of everything. A misfortune that no longer
// strikes, or a rule that no longer acts, would otherwise pass unseen.
func checkTally(t *testing.T, all map[string]tally) {
	t.Helper()
	for i, u := range suites {
		did := all[u.name]
		for _, f := range floors {
			if least := f.least[i] * storms() / leastOf; did[f.what] < least {
				t.Errorf("%s storms: %q happened %d times, and should have %d times at least", u.name, f.what, did[f.what], least)
			}
		}
		if *trail {
			t.Logf("%s: %v", u.name, did)
		}
	}
}

// A floor of 0 shows nothing, so that it needs a reason.
func TestFloorsOfNothingHaveAReason(t *testing.T) {
	for _, f := range floors {
		if none := slices.Contains(f.least[:], 0); none != (f.why != "") {
			t.Errorf("%q is at least %v: the reason is %q", f.what, f.least, f.why)
		}
	}
}
