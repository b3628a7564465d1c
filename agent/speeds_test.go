package agent

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// pace is a node of a job that saves all the time, and how long it digests, in
// hundredths of the time between two saves.
type pace struct {
	*model
	takes  int
	digest Digest
	until  int // when the digest under way is done; 0 = there is none
}

const paceJob = "j"

func paced(nodes []int, first, every int64, saves int) map[int64]int {
	jg := record.JobGen{Job: paceJob, Generation: 1}
	var world cluster.World
	var all []*pace
	for i := range nodes {
		id := cluster.NodeID(fmt.Sprintf("n%d", i))
		world.Members = append(world.Members, cluster.Member{Node: id, AliveRev: 10, FirstRank: i, Devices: []cluster.DeviceID{cluster.DeviceID(id)}})
		p := &pace{model: newModel(), takes: nodes[i]}
		p.node = id
		all = append(all, p)
	}
	for i, p := range all {
		g := p.goal(jg)
		g.Plan, g.Permit, g.Spec = &record.Plan{World: world}, true, &record.Submitted{}
		r := p.run(jg)
		r.Shim, r.Verified = Live, true
		p.report(jg).Workers = []record.Worker{{Rank: i}}
	}
	recorded := map[int64]int{} // by how many nodes
	for now := range 100 * saves {
		step := first + int64(now/100)*every
		for i, p := range all {
			if now%100 != 0 && now != p.until {
				continue // nothing happens here
			}
			if now%100 == 0 {
				r := p.report(jg)
				r.Saves = append(r.Saves, Save{Step: step, Rank: i, Dir: "/ck"})
				r.Saves = r.Saves[max(0, len(r.Saves)-128):] // as many as a host remembers
			}
			if now == p.until {
				p.carryOut(p.digest)
			}
			for range 3 { // what is recorded lets something else begin
				p.act(jg, now, recorded)
			}
		}
	}
	maps.DeleteFunc(recorded, func(_ int64, n int) bool { return n < len(nodes) })
	return recorded
}

// act begins what is planned now, and records what was digested.
func (p *pace) act(jg record.JobGen, now int, recorded map[int64]int) {
	for _, a := range p.plan() {
		switch a := a.(type) {
		case Digest:
			p.digest, p.until = a, now+p.takes
			p.run(jg).Digests[a.Step] = Work[record.Saved]{}
		case WriteSaved:
			p.carryOut(a)
			recorded[a.Step]++
		case Merge:
		default:
			p.carryOut(a)
		}
	}
}

// A job that saves faster than its nodes digest commits all the same, again and
// again, whatever their speeds and whichever steps it saves.
func TestNodesOfDifferentSpeedsShareSteps(t *testing.T) {
	const saves = 200
	for _, nodes := range [][]int{{30}, {150}, {370}, {30, 150}, {150, 250}, {230, 370}, {330, 333}, {210, 570, 1130}, {990, 1010}, {310, 320, 330, 340, 350, 360, 370, 380}} {
		for _, steps := range []struct{ first, every int64 }{{1, 1}, {7, 50}} {
			shared := slices.Sorted(maps.Keys(paced(nodes, steps.first, steps.every, saves)))
			slowest := slices.Max(nodes)
			gap, last := int64(0), steps.first
			for _, s := range shared {
				gap, last = max(gap, (s-last)/steps.every), s
			}
			gap = max(gap, int64(saves)-(last-steps.first)/steps.every)
			if least := 100 * saves / slowest / 6; len(shared) < min(least, saves/3) {
				t.Errorf("digests of %v hundredths, steps %+v: %d shared, want %d", nodes, steps, len(shared), least)
			}
			if most := int64(20*slowest/100 + 5); gap > most {
				t.Errorf("digests of %v hundredths, steps %+v: no step shared for %d saves, at most %d is fine", nodes, steps, gap, most)
			}
			t.Logf("%v %+v: %d shared, longest gap %d saves", nodes, steps, len(shared), gap)
		}
	}
}
