package coordinator_test

import (
	"encoding/json"
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
			if strings.Contains(v.State.Value.Reason, text) {
				s.did(name)
			}
		}
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
	{"agent down", [6]int{647, 503, 476, 219, 241, 222}, ""},
	{"agent's answer lost", [6]int{79, 64, 55, 30, 33, 23}, ""},
	{"answer lost", [6]int{169, 166, 121, 69, 71, 80}, ""},
	{"asked in rhythm", [6]int{11, 5, 6, 4, 2, 2}, ""},
	{"asked at once", [6]int{5, 4, 2, 1, 0, 3}, "leaders whose clocks differ by minutes seldom know that they ask soon"},
	{"checkpoint damaged", [6]int{38, 25, 23, 13, 11, 10}, ""},
	{"checkpoint given up", [6]int{24, 13, 11, 9, 4, 6}, ""},
	{"damaged checkpoint loaded", [6]int{13, 9, 8, 6, 2, 4}, ""},
	{"device sick", [6]int{45, 35, 27, 15, 16, 15}, ""},
	{"etcd restored", [6]int{25, 30, 20, 11, 13, 14}, ""},
	{"events together", [6]int{12601, 12037, 9067, 5423, 4331, 6317}, ""},
	{"failed: checkpoint", [6]int{47, 27, 24, 20, 9, 11}, ""},
	{"failed: node", [6]int{28, 22, 17, 10, 10, 8}, ""},
	{"failed: space", [6]int{13, 7, 7, 3, 5, 2}, ""},
	{"failed: transient", [6]int{14, 8, 5, 5, 5, 3}, ""},
	{"failed: worker", [6]int{34, 27, 23, 14, 10, 13}, ""},
	{"fate: agent dies", [6]int{41, 36, 30, 17, 15, 18}, ""},
	{"fate: device sick", [6]int{45, 37, 29, 15, 16, 19}, ""},
	{"fate: disk misread", [6]int{69, 76, 45, 26, 30, 41}, ""},
	{"fate: leader deposed", [6]int{35, 31, 22, 11, 14, 13}, ""},
	{"fate: leader dies", [6]int{33, 34, 25, 14, 12, 19}, ""},
	{"fate: leader freezes", [6]int{39, 44, 24, 16, 18, 22}, ""},
	{"fate: etcd restored", [6]int{28, 43, 25, 14, 19, 19}, ""},
	{"fate: lease revoked", [6]int{35, 35, 19, 13, 18, 12}, ""},
	{"fate: lease revoked unseen", [6]int{38, 32, 24, 16, 9, 18}, ""},
	{"fate: node cordoned", [6]int{37, 39, 26, 16, 14, 20}, ""},
	{"fate: node cut off", [6]int{77, 71, 53, 31, 27, 35}, ""},
	{"fate: node lost", [6]int{33, 34, 21, 13, 13, 18}, ""},
	{"fate: node refuses", [6]int{67, 66, 46, 25, 28, 31}, ""},
	{"fate: node scrapped", [6]int{37, 35, 26, 15, 14, 17}, ""},
	{"fate: pause", [6]int{37, 45, 23, 20, 17, 22}, ""},
	{"fate: resume", [6]int{42, 42, 24, 13, 16, 20}, ""},
	{"fate: scale", [6]int{29, 34, 20, 16, 13, 17}, ""},
	{"fate: stop", [6]int{63, 70, 41, 28, 26, 37}, ""},
	{"fate: worker fails", [6]int{77, 79, 57, 28, 33, 39}, ""},
	{"fate: worker out of memory", [6]int{38, 33, 24, 13, 14, 16}, ""},
	{"fate: worker unkillable", [6]int{40, 35, 27, 14, 16, 13}, ""},
	{"generation lost with etcd", [6]int{17, 13, 12, 10, 7, 4}, ""},
	{"grants of a lost timeline refused", [6]int{4, 2, 2, 1, 1, 1}, ""},
	{"halted for a pause", [6]int{36, 39, 19, 6, 19, 19}, ""},
	{"leader deposed unawares", [6]int{40, 36, 26, 11, 16, 16}, ""},
	{"leader died", [6]int{33, 32, 23, 13, 11, 18}, ""},
	{"leader frozen out", [6]int{26, 33, 17, 12, 13, 16}, ""},
	{"lease revoked", [6]int{24, 22, 13, 8, 13, 6}, ""},
	{"lease revoked unseen", [6]int{28, 22, 16, 13, 6, 12}, ""},
	{"listing", [6]int{4251, 4739, 3708, 2093, 1668, 2379}, ""},
	{"machine down", [6]int{5399, 6999, 4663, 4942, 1244, 3624}, ""},
	{"machine lost for a time", [6]int{33, 34, 21, 13, 13, 18}, ""},
	{"news dropped", [6]int{0, 381, 131, 82, 161, 177}, "only lossy storms lose news"},
	{"news repeated", [6]int{0, 553, 196, 127, 225, 261}, "only lossy storms repeat news"},
	{"node called down", [6]int{8, 7, 4, 2, 2, 4}, ""},
	{"node cordoned", [6]int{19, 18, 12, 7, 5, 10}, ""},
	{"node cut off", [6]int{1989, 2893, 1603, 1054, 654, 2006}, ""},
	{"node drained", [6]int{19, 24, 15, 10, 9, 11}, ""},
	{"offer late", [6]int{94, 61, 50, 32, 28, 24}, ""},
	{"offer of an old generation", [6]int{43, 28, 26, 15, 15, 9}, ""},
	{"out of memory", [6]int{55, 45, 33, 25, 20, 17}, ""},
	{"out of memory in the largest world", [6]int{44, 33, 22, 19, 17, 9}, ""},
	{"overtaken write refused", [6]int{77, 76, 57, 40, 26, 38}, ""},
	{"pause", [6]int{11, 15, 8, 4, 5, 7}, ""},
	{"policy refused", [6]int{104, 82, 54, 36, 28, 46}, ""},
	{"progress late", [6]int{239, 192, 142, 96, 88, 78}, ""},
	{"rescale", [6]int{105, 91, 70, 42, 40, 39}, ""},
	{"SIGKILL survived", [6]int{65, 56, 17, 5, 32, 7}, ""},
	{"save cut short", [6]int{20, 34, 11, 11, 9, 23}, ""},
	{"shim kills by itself", [6]int{32, 28, 23, 13, 14, 11}, ""},
	{"sound checkpoint misread", [6]int{9, 3, 3, 2, 2, 0}, "the node with the bad disk is alone, and then cut off, so that it seldom verifies"},
	{"stale leader refused", [6]int{3898, 3764, 3253, 1816, 1257, 1916}, ""},
	{"start by a skewed clock", [6]int{0, 174, 58, 0, 174, 0}, "clocks differ in skewed storms, which are lossy, keep what has ended for days, and have no node alone"},
	{"start from a checkpoint", [6]int{307, 209, 185, 114, 91, 87}, ""},
	{"start in doubt", [6]int{52, 29, 30, 24, 9, 11}, ""},
	{"state backoff", [6]int{86, 48, 46, 31, 20, 19}, ""},
	{"state held", [6]int{16, 13, 8, 7, 4, 5}, ""},
	{"state stopped", [6]int{29, 31, 22, 11, 13, 15}, ""},
	{"state succeeded", [6]int{156, 153, 105, 65, 58, 79}, ""},
	{"stop at once", [6]int{14, 13, 10, 4, 5, 6}, ""},
	{"stopped beside an unkillable process", [6]int{4, 4, 1, 2, 2, 1}, ""},
	{"storms with a fence", [6]int{22, 16, 11, 8, 7, 6}, ""},
	{"takeover", [6]int{99, 102, 67, 37, 42, 51}, ""},
	{"time limit met", [6]int{18, 18, 12, 8, 7, 9}, ""},
	{"transaction late", [6]int{168, 171, 124, 80, 63, 82}, ""},
	{"transaction lost", [6]int{177, 166, 121, 74, 67, 78}, ""},
	{"txn collect", [6]int{159, 108, 97, 67, 46, 43}, ""},
	{"txn commit", [6]int{671, 566, 429, 259, 219, 278}, ""},
	{"txn cordon", [6]int{10, 9, 6, 3, 3, 5}, ""},
	{"txn exclude", [6]int{0, 5, 2, 0, 2, 3}, "too rare: a node refuses after the halt that another's refusal has begun"},
	{"txn expire", [6]int{35, 38, 26, 74, 0, 20}, "skewed storms are shorter than what has ended is kept"},
	{"txn fall-back", [6]int{24, 13, 11, 9, 4, 6}, ""},
	{"txn fence", [6]int{32, 25, 16, 11, 12, 8}, ""},
	{"txn grant", [6]int{30, 29, 59, 13, 11, 14}, ""},
	{"txn give-up-size", [6]int{6, 5, 4, 2, 2, 2}, ""},
	{"txn halt", [6]int{490, 395, 308, 196, 174, 168}, ""},
	{"txn kind", [6]int{102, 103, 68, 41, 39, 53}, ""},
	{"txn shorten", [6]int{27, 29, 19, 15, 8, 17}, ""},
	{"txn kill", [6]int{19, 32, 10, 11, 8, 22}, ""},
	{"txn readmit", [6]int{7, 3, 2, 2, 1, 1}, ""},
	{"txn queue", [6]int{159, 117, 91, 56, 49, 55}, ""},
	{"txn remove", [6]int{9, 11, 7, 3, 5, 3}, ""},
	{"txn resume", [6]int{6, 5, 2, 2, 2, 2}, ""},
	{"txn scale", [6]int{25, 27, 18, 15, 10, 13}, ""},
	{"txn resolve", [6]int{23, 24, 19, 12, 10, 11}, ""},
	{"txn speed", [6]int{273, 270, 184, 111, 106, 134}, ""},
	{"txn start", [6]int{638, 541, 409, 256, 231, 243}, ""},
	{"txn stop-after", [6]int{153, 119, 103, 61, 55, 49}, ""},
	{"txn suspect", [6]int{23, 12, 11, 10, 4, 4}, ""},
	{"txn terminate", [6]int{107, 84, 66, 35, 37, 36}, ""},
	{"txn unfenced", [6]int{0, 22, 6, 4, 0, 22}, "the node that fences nothing is one that is alone at first, in lossy storms whose clocks do not differ"},
	{"txn want-stop", [6]int{21, 24, 16, 8, 10, 12}, ""},
	{"worker failed", [6]int{23, 20, 16, 9, 8, 10}, ""},
}

// checkTally: every suite did enough of everything. A misfortune that no longer
// strikes, or a rule that no longer acts, would otherwise pass unseen.
func checkTally(t *testing.T, all map[string]tally) {
	t.Helper()
	for i, u := range suites {
		did := all[u.name]
		for _, f := range floors {
			if least := f.least[i] * *seeds / leastOf; did[f.what] < least {
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
