package host

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// collectEvery is how often the node looks which generations the leader has
	// forgotten, and collectMost how many it looks for each time.
	collectEvery = time.Minute
	collectMost  = 16

	collectLane agent.Lane = "collect"
)

// goals is the input of agent.Plan: what the records ask of this node, each part of
// them listed and watched by a follower, and what is there. The loop owns it.
type goals struct {
	*shared
	session  *session
	runs     *runs
	adoption *adoption

	following *following

	collected map[record.JobGen]bool // generations that the leader has collected and this node still has records of
	checked   time.Time              // when these were last looked for
}

func newGoals(sh *shared, s *session, rs *runs, ad *adoption) *goals {
	return &goals{shared: sh, session: s, runs: rs, adoption: ad, following: newFollowing(sh)}
}

// follow has what concerns this node followed, and nothing else.
func (gs *goals) follow() { gs.following.only(gs.wanted()) }

func (gs *goals) wanted() map[string][]string {
	parts := map[string][]string{selfPart: {record.NodePrefix(gs.cfg.Node)}}
	for _, jg := range gs.runs.current() {
		parts[jobPart(jg.Job)] = []string{record.SpecKey(jg.Job)}
		parts[genPart(jg)] = []string{record.GenerationPrefix(jg.Job, jg.Generation)}
		if gs.records.mirror.Job(jg.Job).Generation(jg.Generation).Plan.Value.World.LedBy(gs.cfg.Node) {
			parts[savesPart(jg.Job)] = []string{record.CheckpointsPrefix(jg.Job)}
		}
		if prefixes := gs.peerPrefixes(jg); len(prefixes) > 0 {
			parts[peersPart(jg)] = prefixes
		}
	}
	return parts
}

// peerPrefixes are where the other members of a generation write what this node
// has to know while it runs: their failures and ends, and on rank 0's node their
// saves; what that one has offered, all others.
func (gs *goals) peerPrefixes(jg record.JobGen) []string {
	plan := gs.records.mirror.Job(jg.Job).Generation(jg.Generation).Plan
	if !plan.Exists() || gs.records.acks(jg).Stopped.Exists() {
		return nil
	}
	_, index, ours := plan.Value.World.Member(gs.cfg.Node)
	if !ours {
		return nil
	}
	var prefixes []string
	for _, m := range plan.Value.World.Members {
		if m.Node == gs.cfg.Node {
			continue
		}
		prefixes = append(prefixes, record.AckPrefix(m.Node, jg.Job, jg.Generation))
		if index == 0 {
			prefixes = append(prefixes, record.SavedPrefix(m.Node, jg.Job, jg.Generation))
		}
	}
	if index != 0 {
		prefixes = append(prefixes, record.OfferPrefix(plan.Value.World.Members[0].Node, jg.Job, jg.Generation))
	}
	return prefixes
}

// desired is what the records say, for agent.Plan.
func (gs *goals) desired() agent.Desired {
	d := agent.Desired{Node: gs.cfg.Node, AliveRev: gs.session.presence.aliveRev, Strict: gs.session.strict(), Deadline: gs.session.deadline(), LauncherMemory: gs.cfg.LauncherMemory}
	if !gs.records.known(selfPart) {
		return d // nothing may be taken for absent
	}
	for _, jg := range gs.runs.current() {
		if gs.runs.all[jg] != nil || gs.adoption.unscanned == nil { // else it may have a run that is yet to be found
			d.Goals = append(d.Goals, gs.goal(jg))
		}
	}
	for _, jg := range slices.SortedFunc(maps.Keys(gs.collected), agent.Compare) {
		if gs.runs.all[jg] == nil {
			d.Goals = append(d.Goals, agent.Goal{
				Job: jg.Job, Generation: jg.Generation, Read: true, Acks: gs.records.acks(jg),
			})
		}
	}
	return d
}

func (gs *goals) goal(jg record.JobGen) agent.Goal {
	g := agent.GoalOf(gs.records.mirror, gs.cfg.Node, jg)
	g.Read = gs.records.known(genPart(jg)) && gs.records.known(jobPart(jg.Job))
	// The grant and the plan come by two watches. A plan that is missing is so once the
	// generation's part is known as of the grant: it may be on its way.
	if g.Plan == nil && g.Granted && gs.records.listed[genPart(jg)] < gs.records.self().Grants[jg.Job].Mod {
		g.Read = false
	}
	g.Fresh = gs.adoption.fresh(jg)
	return g
}

// checkCollected looks which of the generations that this node has stopped the
// leader has forgotten, so that their records here can go too. The oldest go
// first, so a job whose oldest is still there has lost none.
func (gs *goals) checkCollected() {
	at := loop.Lane{What: collectLane}
	if gs.Busy(at) || time.Since(gs.checked) < collectEvery || !gs.records.known(selfPart) {
		return
	}
	gs.checked = time.Now()
	current := gs.runs.current()
	var old []record.JobGen
	for jg := range gs.records.self().Acks {
		if !slices.Contains(current, jg) {
			old = append(old, jg)
		}
	}
	if len(old) == 0 {
		return
	}
	slices.SortFunc(old, agent.Compare)
	gs.Beside(at, func(ctx context.Context) func() {
		gone := map[record.JobGen]bool{}
		kept := map[cluster.JobID]bool{}
		for _, jg := range old {
			if kept[jg.Job] || len(gone) == collectMost {
				continue
			}
			_, exists, err := gs.store.Get(ctx, record.PlanKey(jg.Job, jg.Generation))
			if err != nil || exists {
				kept[jg.Job] = true
				continue
			}
			gone[jg] = true
		}
		return func() { gs.collected = gone }
	})
}

// observed is what is on the node, for agent.Plan.
func (gs *goals) observed() agent.Observed {
	o := agent.Observed{Now: time.Now()}
	for _, r := range gs.runs.all {
		o.Runs = append(o.Runs, agent.Run{
			Job: r.jg.Job, Generation: r.jg.Generation, Nonce: r.nonce,
			Shim: r.shim, Report: told(r.report, r.saved), Pushed: r.wish.pushed, Refused: r.refused, Verified: r.resume.sound,
			Swept: gs.adoption.over(r), Killed: r.wish.killed, ToldToKill: ago(r.wish.toldToKill), ToldToGo: ago(r.wish.toldToRetire),
			KillPending: r.killPending(gs.cfg.Node, gs.records.self().Inventory.Value), Binding: r.binding, Unprepared: r.unprepared, Earlier: r.life != gs.session.presence.aliveRev,
			Digests: r.saves.Digests, Merges: r.saves.Merges, Plain: r.saves.Found, Quiet: time.Since(later(r.changed, r.saves.Changed)),
		})
	}
	return o
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ago is how long ago something was; 0 if it never was.
func ago(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return time.Since(t)
}

// told is a report with the saves of more steps than it holds itself.
func told(r *run.Report, saves []run.Save) *run.Report {
	if r == nil {
		return nil
	}
	whole := *r
	whole.Saves = saves
	return &whole
}
