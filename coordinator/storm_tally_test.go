package coordinator_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
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
	case kind == "ready" && c.Deleted:
		if next := v.Next[record.Locate(c.Key).Job]; next.Exists() && next.Mod != c.ModRevision {
			s.did("ready taken back")
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
		if forOthers(v.State.Value.Reason.String()) {
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
		if p.Cold != "" {
			s.did("start cold after a warm one")
		}
		if p.Doubted {
			s.did("start in doubt")
		}
	case what == "state":
		s.did("state " + string(v.State.Value.Phase))
		for code, name := range map[reason.Code]string{reason.Killed: "save cut short", reason.Paused: "halted for a pause", reason.TimeLimit: "time limit met"} {
			if v.State.Value.Reason.Has(code) && (v.State.Value.Phase == cluster.Halting || v.State.Value.Phase.Terminal()) {
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

const (
	leastOf = 300 // how many storms the floors are for: those that run by default
	someOf  = 60  // how many run with -short: floors are in proportion, and the soak alone looks at what is rare, a quarter of the kinds
)

// floors are how often each suite does each thing at least, in the order of suites: a third
// of what it does as this is written. 0 = it is too rare there, or cannot be, and why.
var floors = []struct {
	what  string
	least [6]int
	why   string // one of them is 0
}{
	{"agent down", [6]int{721, 547, 425, 282, 292, 185}, ""},
	{"agent's answer lost", [6]int{83, 62, 50, 29, 27, 29}, ""},
	{"answer lost", [6]int{155, 151, 111, 74, 61, 78}, ""},
	{"asked in rhythm", [6]int{5, 9, 5, 2, 4, 4}, ""},
	{"asked at once", [6]int{5, 4, 2, 2, 0, 3}, "leaders whose clocks differ by minutes seldom know that they ask soon"},
	{"checkpoint damaged", [6]int{27, 23, 16, 11, 9, 10}, ""},
	{"checkpoint given up", [6]int{17, 15, 10, 7, 6, 7}, ""},
	{"damaged checkpoint loaded", [6]int{11, 8, 7, 4, 3, 4}, ""},
	{"device sick", [6]int{36, 33, 23, 15, 13, 15}, ""},
	{"etcd restored", [6]int{28, 27, 16, 11, 12, 11}, ""},
	{"events together", [6]int{11328, 10772, 7710, 5204, 3525, 5867}, ""},
	{"failed: checkpoint", [6]int{36, 28, 20, 16, 11, 14}, ""},
	{"failed: node", [6]int{29, 22, 21, 12, 8, 9}, ""},
	{"failed: space", [6]int{12, 10, 6, 4, 3, 5}, ""},
	{"failed: transient", [6]int{9, 15, 8, 5, 6, 6}, ""},
	{"failed: worker", [6]int{82, 71, 56, 40, 27, 34}, ""},
	{"fate: agent dies", [6]int{33, 31, 23, 15, 10, 16}, ""},
	{"fate: device sick", [6]int{34, 39, 24, 15, 15, 21}, ""},
	{"fate: disk misread", [6]int{70, 72, 40, 28, 31, 33}, ""},
	{"fate: leader deposed", [6]int{29, 34, 21, 12, 13, 17}, ""},
	{"fate: leader dies", [6]int{30, 28, 19, 10, 11, 16}, ""},
	{"fate: leader freezes", [6]int{37, 34, 23, 14, 15, 17}, ""},
	{"fate: etcd restored", [6]int{73, 69, 47, 29, 33, 29}, ""},
	{"fate: lease revoked", [6]int{35, 36, 20, 14, 14, 19}, ""},
	{"fate: lease revoked unseen", [6]int{29, 31, 18, 10, 14, 14}, ""},
	{"fate: node cordoned", [6]int{33, 34, 26, 11, 13, 18}, ""},
	{"fate: node cut off", [6]int{62, 65, 45, 22, 26, 34}, ""},
	{"fate: node lost", [6]int{36, 34, 22, 13, 13, 17}, ""},
	{"fate: node refuses", [6]int{71, 71, 51, 32, 25, 37}, ""},
	{"fate: node scrapped", [6]int{37, 33, 27, 12, 15, 15}, ""},
	{"fate: pause", [6]int{35, 36, 24, 14, 13, 19}, ""},
	{"fate: resume", [6]int{33, 30, 18, 12, 15, 13}, ""},
	{"fate: scale", [6]int{33, 29, 18, 11, 13, 15}, ""},
	{"fate: stop", [6]int{70, 68, 42, 25, 29, 32}, ""},
	{"fate: worker fails", [6]int{63, 68, 46, 27, 27, 31}, ""},
	{"fate: worker out of memory", [6]int{38, 32, 23, 15, 12, 17}, ""},
	{"fate: worker unkillable", [6]int{40, 31, 28, 17, 15, 12}, ""},
	{"generation lost with etcd", [6]int{56, 41, 35, 19, 20, 17}, ""},
	{"grants of a lost timeline refused", [6]int{3, 2, 1, 1, 1, 1}, ""},
	{"halted for a pause", [6]int{11, 8, 5, 3, 4, 4}, ""},
	{"leader deposed unawares", [6]int{33, 36, 25, 13, 14, 18}, ""},
	{"leader died", [6]int{28, 28, 18, 10, 11, 15}, ""},
	{"leader frozen out", [6]int{30, 25, 18, 12, 10, 13}, ""},
	{"lease revoked", [6]int{25, 18, 11, 9, 7, 9}, ""},
	{"lease revoked unseen", [6]int{22, 21, 12, 8, 9, 9}, ""},
	{"listing", [6]int{2818, 3323, 2195, 1367, 1229, 1854}, ""},
	{"machine down", [6]int{6425, 5286, 2660, 5123, 1565, 1832}, ""},
	{"machine lost for a time", [6]int{30, 26, 19, 11, 13, 10}, ""},
	{"moved", [6]int{9, 9, 6, 2, 3, 5}, ""},
	{"moved among groups", [6]int{5, 5, 4, 1, 2, 3}, ""},
	{"news dropped", [6]int{0, 371, 143, 84, 143, 193}, "only lossy storms lose news"},
	{"news repeated", [6]int{0, 515, 200, 111, 205, 260}, "only lossy storms repeat news"},
	{"node called down", [6]int{6, 8, 6, 4, 2, 4}, ""},
	{"node cordoned", [6]int{16, 16, 13, 5, 6, 7}, ""},
	{"node cut off", [6]int{1480, 2827, 1382, 778, 738, 1938}, ""},
	{"node drained", [6]int{22, 22, 16, 6, 8, 12}, ""},
	{"offer late", [6]int{72, 52, 36, 28, 25, 19}, ""},
	{"offer of an old generation", [6]int{34, 22, 17, 13, 12, 8}, ""},
	{"out of memory", [6]int{50, 46, 35, 29, 17, 21}, ""},
	{"out of memory in the largest world", [6]int{39, 33, 26, 20, 15, 12}, ""},
	{"overtaken write refused", [6]int{82, 85, 57, 36, 34, 42}, ""},
	{"pause", [6]int{11, 9, 6, 4, 4, 4}, ""},
	{"policy refused", [6]int{83, 89, 59, 45, 24, 55}, ""},
	{"progress late", [6]int{211, 172, 130, 85, 77, 74}, ""},
	{"rescale", [6]int{80, 69, 53, 33, 28, 34}, ""},
	{"SIGKILL survived", [6]int{7, 5, 4, 4, 2, 2}, ""},
	{"save cut short", [6]int{18, 34, 15, 9, 5, 27}, ""},
	{"shim kills by itself", [6]int{28, 21, 17, 9, 10, 8}, ""},
	{"sound checkpoint misread", [6]int{6, 4, 4, 3, 2, 0}, "the node with the bad disk is alone, and then cut off, so that it seldom verifies"},
	{"stale leader refused", [6]int{2401, 2233, 1674, 1068, 765, 1339}, ""},
	{"start by a skewed clock", [6]int{0, 171, 72, 0, 171, 0}, "clocks differ in skewed storms, which are lossy, keep what has ended for days, and have no node alone"},
	{"start from a checkpoint", [6]int{259, 208, 158, 111, 84, 101}, ""},
	{"start in doubt", [6]int{63, 49, 41, 32, 19, 25}, ""},
	{"state backoff", [6]int{85, 72, 56, 36, 33, 29}, ""},
	{"state held", [6]int{17, 20, 14, 8, 7, 8}, ""},
	{"state stopped", [6]int{31, 35, 21, 13, 14, 17}, ""},
	{"state succeeded", [6]int{119, 128, 89, 49, 47, 70}, ""},
	{"stop at once", [6]int{14, 12, 9, 7, 4, 6}, ""},
	{"stopped beside an unkillable process", [6]int{4, 2, 2, 3, 1, 1}, ""},
	{"storms with a fence", [6]int{20, 13, 14, 8, 5, 4}, ""},
	{"takeover", [6]int{92, 90, 61, 36, 36, 46}, ""},
	{"thawed leader goes by a lost timeline", [6]int{16, 16, 10, 6, 10, 5}, ""},
	{"time limit met", [6]int{7, 7, 5, 2, 3, 4}, ""},
	{"transaction late", [6]int{158, 158, 117, 71, 57, 86}, ""},
	{"transaction lost", [6]int{156, 148, 115, 67, 55, 82}, ""},
	{"txn collect", [6]int{141, 116, 96, 70, 47, 51}, ""},
	{"txn commit", [6]int{503, 515, 344, 207, 202, 260}, ""},
	{"txn cordon", [6]int{12, 12, 9, 5, 4, 6}, ""},
	{"txn exclude", [6]int{0, 6, 3, 0, 1, 3}, "too rare: a node refuses after the halt that another's refusal has begun"},
	{"txn expire", [6]int{31, 36, 23, 67, 0, 20}, "skewed storms are shorter than what has ended is kept"},
	{"txn fall-back", [6]int{17, 15, 10, 7, 6, 7}, ""},
	{"txn fence", [6]int{33, 20, 23, 13, 8, 7}, ""},
	{"txn grant", [6]int{29, 25, 55, 13, 8, 13}, ""},
	{"txn give-up-size", [6]int{9, 5, 4, 4, 1, 3}, ""},
	{"txn halt", [6]int{484, 427, 325, 198, 172, 207}, ""},
	{"txn kind", [6]int{85, 97, 67, 37, 36, 52}, ""},
	{"txn shorten", [6]int{20, 20, 14, 10, 6, 12}, ""},
	{"txn kill", [6]int{19, 35, 15, 10, 6, 28}, ""},
	{"txn readmit", [6]int{5, 7, 4, 3, 2, 3}, ""},
	{"txn queue", [6]int{146, 125, 100, 53, 49, 63}, ""},
	{"txn remove", [6]int{12, 9, 7, 5, 3, 4}, ""},
	{"txn resume", [6]int{8, 7, 3, 1, 3, 3}, ""},
	{"txn scale", [6]int{28, 24, 16, 10, 10, 12}, ""},
	{"txn resolve", [6]int{21, 23, 14, 10, 10, 11}, ""},
	{"txn speed", [6]int{179, 209, 139, 96, 71, 107}, ""},
	{"txn start", [6]int{608, 560, 417, 252, 222, 278}, ""},
	{"txn stop-after", [6]int{124, 107, 80, 50, 42, 56}, ""},
	{"txn suspect", [6]int{19, 12, 9, 8, 4, 7}, ""},
	{"txn terminate", [6]int{83, 72, 58, 33, 33, 30}, ""},
	{"txn unfenced", [6]int{0, 25, 5, 5, 0, 24}, "the node that fences nothing is one that is alone at first, in lossy storms whose clocks do not differ"},
	{"txn want-stop", [6]int{25, 27, 16, 10, 11, 13}, ""},
	{"txn await-parked", [6]int{8, 7, 6, 2, 3, 2}, ""},
	{"generation prepared", [6]int{143, 125, 103, 41, 60, 57}, ""},
	{"warm start", [6]int{29, 34, 22, 6, 13, 18}, ""},
	{"cold start of a prepared run", [6]int{8, 4, 6, 2, 3, 1}, ""},
	{"prepared to start cold", [6]int{12, 9, 10, 3, 5, 2}, ""},
	{"launcher lost", [6]int{30, 13, 20, 7, 9, 3}, ""},
	{"prepared shim lost", [6]int{19, 15, 14, 5, 8, 4}, ""},
	{"cannot be prepared", [6]int{4, 4, 4, 1, 2, 1}, ""},
	{"worker failed beside what waits", [6]int{4, 3, 2, 1, 1, 1}, ""},
	{"agent died beside what waits", [6]int{7, 5, 3, 2, 2, 2}, ""},
	{"agent died with what waits", [6]int{10, 7, 6, 4, 5, 1}, ""},
	{"machine lost with what waits", [6]int{12, 5, 7, 1, 3, 1}, ""},
	{"ready taken back", [6]int{5, 5, 5, 1, 4, 1}, ""},
	{"txn prepare", [6]int{199, 181, 145, 58, 80, 88}, ""},
	{"worker failed", [6]int{17, 15, 12, 6, 6, 8}, ""},
}

// checkTally: every suite did enough of everything. A misfortune that no longer
// strikes, or a rule that no longer acts, would otherwise pass unseen.
func checkTally(t *testing.T, all map[string]tally) {
	t.Helper()
	const rare = 3 // a part of the storms may have none of what should happen less often
	part := storms() < leastOf
	for i, u := range suites {
		did := all[u.name]
		for _, f := range floors {
			least := f.least[i] * storms() / leastOf
			if part && least < rare {
				continue
			}
			if part { // of a few storms: less by two standard deviations of such a count is chance
				least = max(1, least-int(2*math.Sqrt(float64(least))))
			}
			if did[f.what] < least {
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
