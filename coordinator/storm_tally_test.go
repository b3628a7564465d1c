package coordinator_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/fence"
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
// of what it does as this is written. 0 = it is too rare there, or cannot be.
var floors = []struct {
	what  string
	least [6]int
}{
	{"agent down", [6]int{582, 571, 384, 201, 198, 305}},
	{"agent's answer lost", [6]int{83, 53, 46, 27, 25, 23}},
	{"answer lost", [6]int{229, 262, 157, 97, 95, 141}},
	{"checkpoint given up", [6]int{25, 17, 13, 9, 10, 4}},
	{"damaged checkpoint loaded", [6]int{15, 11, 7, 6, 6, 3}},
	{"device sick", [6]int{28, 34, 25, 15, 15, 12}},
	{"etcd restored", [6]int{13, 12, 10, 3, 7, 4}},
	{"failed: checkpoint", [6]int{46, 42, 24, 19, 27, 11}},
	{"failed: node", [6]int{8, 5, 4, 4, 2, 1}},
	{"failed: space", [6]int{9, 8, 2, 5, 4, 2}},
	{"failed: transient", [6]int{4, 5, 2, 1, 2, 2}},
	{"failed: worker", [6]int{48, 40, 27, 18, 21, 13}},
	{"fate: agent dies", [6]int{45, 40, 29, 17, 14, 21}},
	{"fate: device sick", [6]int{38, 45, 31, 17, 18, 21}},
	{"fate: disk misread", [6]int{83, 89, 56, 36, 36, 41}},
	{"fate: leader deposed", [6]int{40, 36, 22, 14, 12, 20}},
	{"fate: leader dies", [6]int{41, 42, 27, 21, 16, 22}},
	{"fate: leader freezes", [6]int{33, 40, 26, 11, 15, 21}},
	{"fate: etcd restored", [6]int{34, 36, 26, 12, 18, 14}},
	{"fate: lease revoked", [6]int{48, 44, 27, 18, 19, 20}},
	{"fate: lease revoked unseen", [6]int{42, 44, 30, 20, 15, 23}},
	{"fate: node cordoned", [6]int{36, 38, 25, 13, 17, 18}},
	{"fate: node cut off", [6]int{83, 94, 60, 38, 39, 46}},
	{"fate: node lost", [6]int{40, 39, 28, 17, 17, 18}},
	{"fate: node refuses", [6]int{47, 41, 30, 20, 16, 20}},
	{"fate: node scrapped", [6]int{43, 34, 25, 16, 13, 17}},
	{"fate: pause", [6]int{45, 35, 23, 11, 17, 16}},
	{"fate: resume", [6]int{45, 42, 29, 14, 17, 21}},
	{"fate: scale", [6]int{48, 40, 31, 17, 14, 22}},
	{"fate: stop", [6]int{77, 89, 49, 32, 35, 46}},
	{"fate: worker fails", [6]int{77, 83, 51, 30, 35, 41}},
	{"fate: worker unkillable", [6]int{42, 43, 22, 15, 20, 19}},
	{"generation lost with etcd", [6]int{28, 19, 17, 5, 12, 5}},
	{"halted for a pause", [6]int{74, 56, 50, 10, 27, 24}},
	{"leader deposed unawares", [6]int{40, 36, 22, 13, 11, 21}},
	{"leader died", [6]int{40, 41, 25, 20, 16, 21}},
	{"leader frozen out", [6]int{26, 33, 20, 9, 13, 17}},
	{"lease revoked", [6]int{46, 35, 26, 14, 17, 14}},
	{"lease revoked unseen", [6]int{34, 32, 24, 15, 14, 14}},
	{"listing", [6]int{4230, 5784, 3033, 2237, 2191, 3037}},
	{"machine down", [6]int{6610, 5418, 3122, 2907, 2071, 3060}},
	{"machine lost for a time", [6]int{40, 39, 28, 17, 17, 18}},
	{"news dropped", [6]int{0, 386, 118, 71, 175, 169}},
	{"news repeated", [6]int{0, 580, 180, 124, 246, 260}},
	{"node called down", [6]int{8, 7, 6, 1, 3, 3}},
	{"node cordoned", [6]int{17, 16, 14, 6, 8, 7}},
	{"node cut off", [6]int{2328, 2983, 1899, 1200, 889, 1869}},
	{"node drained", [6]int{23, 25, 14, 9, 11, 10}},
	{"offer of an old generation", [6]int{68, 43, 37, 26, 25, 12}},
	{"overtaken write refused", [6]int{93, 81, 52, 35, 40, 31}},
	{"pause", [6]int{13, 11, 9, 1, 6, 4}},
	{"policy refused", [6]int{72, 84, 49, 31, 30, 44}},
	{"rescale", [6]int{127, 116, 81, 57, 51, 50}},
	{"SIGKILL survived", [6]int{26, 19, 7, 6, 12, 7}},
	{"save cut short", [6]int{16, 33, 17, 8, 8, 23}},
	{"shim kills by itself", [6]int{46, 29, 27, 13, 14, 10}},
	{"sound checkpoint misread", [6]int{6, 7, 4, 0, 4, 1}},
	{"stale leader refused", [6]int{4596, 6322, 3159, 2384, 2228, 3466}},
	{"start from a checkpoint", [6]int{297, 256, 179, 133, 126, 91}},
	{"start in doubt", [6]int{52, 45, 26, 24, 29, 10}},
	{"state backoff", [6]int{77, 51, 37, 28, 30, 14}},
	{"state held", [6]int{13, 13, 6, 5, 7, 4}},
	{"state stopped", [6]int{31, 29, 20, 11, 10, 15}},
	{"state succeeded", [6]int{158, 166, 114, 70, 64, 85}},
	{"stop at once", [6]int{8, 4, 3, 0, 1, 1}},
	{"storms with a fence", [6]int{26, 15, 15, 7, 9, 4}},
	{"takeover", [6]int{107, 110, 68, 42, 40, 59}},
	{"time limit met", [6]int{22, 21, 15, 8, 7, 12}},
	{"transaction late", [6]int{228, 272, 153, 94, 105, 133}},
	{"transaction lost", [6]int{220, 261, 158, 95, 102, 125}},
	{"txn collect", [6]int{190, 157, 106, 86, 85, 46}},
	{"txn commit", [6]int{739, 756, 516, 361, 296, 365}},
	{"txn cordon", [6]int{13, 10, 9, 4, 5, 4}},
	{"txn exclude", [6]int{0, 4, 0, 0, 1, 1}},
	{"txn expire", [6]int{38, 41, 28, 80, 0, 22}},
	{"txn fall-back", [6]int{24, 16, 12, 8, 10, 4}},
	{"txn fence", [6]int{39, 23, 23, 11, 15, 5}},
	{"txn grant", [6]int{47, 31, 78, 14, 14, 14}},
	{"txn halt", [6]int{509, 452, 315, 211, 213, 182}},
	{"txn shorten", [6]int{29, 31, 22, 12, 14, 13}},
	{"txn kill", [6]int{15, 31, 16, 8, 7, 23}},
	{"txn readmit", [6]int{1, 2, 0, 1, 1, 0}},
	{"txn queue", [6]int{158, 147, 100, 66, 64, 61}},
	{"txn remove", [6]int{15, 10, 7, 5, 3, 4}},
	{"txn resume", [6]int{6, 6, 5, 1, 3, 1}},
	{"txn scale", [6]int{40, 34, 28, 14, 12, 19}},
	{"txn settle", [6]int{28, 27, 20, 15, 12, 11}},
	{"txn start", [6]int{665, 616, 427, 280, 275, 267}},
	{"txn stop-after", [6]int{169, 143, 112, 70, 60, 60}},
	{"txn suspect", [6]int{21, 18, 12, 9, 11, 5}},
	{"txn terminate", [6]int{111, 94, 64, 49, 44, 39}},
	{"txn unfenced", [6]int{0, 19, 7, 3, 0, 19}},
	{"txn want-stop", [6]int{20, 18, 12, 7, 7, 9}},
	{"worker failed", [6]int{32, 30, 20, 13, 15, 11}},
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
