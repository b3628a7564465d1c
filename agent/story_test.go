package agent

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

var update = flag.Bool("update", false, "rewrite the expected lines of the stories")

// TestStories plays each script: a line is a fact that has changed, the indented
// lines below it are what is planned then; "done" carries all of that out.
// Each is played many times over, because Go's map order differs each time.
func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for range 30 {
				if got != string(text) {
					t.Fatalf("the story goes differently (go test ./agent -update, then read the diff):\n%s", got)
				}
				got = play(t, string(text))
			}
		})
	}
}

func play(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	m := newModel()
	var planned []Action
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if words[0] == "done" {
			for _, a := range planned {
				m.carryOut(a)
			}
		} else if err := m.fact(words); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		planned = m.plan()
		for _, a := range planned {
			out.WriteString("  " + tell(a) + "\n")
		}
	}
	return out.String()
}

// tell writes an action with its content, as far as a story is about it.
func tell(a Action) string {
	content := any(nil)
	switch a := a.(type) {
	case WriteAck:
		switch v := a.Value.(type) {
		case record.Failed:
			return fmt.Sprintf("%s %s: %s", a, v.Kind, v.Reason)
		case record.Started:
			return fmt.Sprintf("%s workers=%d", a, len(v.Workers))
		case record.Held:
			return fmt.Sprintf("%s sdk=%t begun=%d", a, v.SDK, v.Begun)
		case record.Stopped:
			left := ""
			if len(v.Unkillable) > 0 {
				left = fmt.Sprintf(" unkillable=%v", v.Unkillable)
			}
			return fmt.Sprintf("%s finished=%t saved=%s%s", a, v.Finished, since(v.SavedAt), left)
		}
	case Digest:
		return fmt.Sprintf("%s samples=%d ranks=%v plain=%t dir=%q", a, a.Samples, a.Ranks, a.Plain, a.Dir)
	case Merge:
		return fmt.Sprintf("%s parts=%d world=%d", a, len(a.Parts), a.WorldSize)
	default:
	}
	if content != nil {
		b, _ := json.Marshal(content)
		return fmt.Sprintf("%s %s", a, b)
	}
	return a.String()
}

func since(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Sub(epoch()).String()
}

// fact takes one line of a story in.
func (m *model) fact(w []string) error {
	switch w[0] {
	case "alive":
		m.alive = number(w[1])
		return nil
	case "deadline":
		m.deadline = number(w[1])
		return nil
	case "strict":
		m.strict = true
		return nil
	case "restarted": // another agent, which has found no run directories
		clear(m.runs)
		for _, g := range m.goals {
			g.Fresh = false
		}
		return nil
	}
	jg := named(w[1])
	if m.recordFact(jg, w) || m.shimFact(jg, w) || m.runFact(jg, w) {
		return nil
	}
	return fmt.Errorf("no such fact")
}

func (m *model) recordFact(jg record.JobGen, w []string) bool {
	g := m.goal(jg)
	switch w[0] {
	case "plan":
		world := cluster.World{Job: jg.Job, Generation: jg.Generation, BatchSize: 8}
		plan := &record.Plan{}
		rank := 0
		for _, x := range w[2:] {
			if step, ok := strings.CutPrefix(x, "resume="); ok {
				plan.Resume = &record.Checkpoint{Step: number(step)}
				continue
			}
			if nonce, ok := strings.CutPrefix(x, "nonce="); ok {
				world.Nonce = nonce
				continue
			}
			node, rest, _ := strings.Cut(x, "@")
			rev, count, _ := strings.Cut(rest, "*")
			member := cluster.Member{Node: cluster.NodeID(node), AliveRev: number(rev), FirstRank: rank}
			for range number(count) {
				member.Devices = append(member.Devices, cluster.DeviceID(fmt.Sprintf("d%d", rank)))
				rank++
			}
			world.Members = append(world.Members, member)
		}
		plan.World = world
		g.Read, g.Plan, g.Permit, g.Spec = true, plan, true, &record.Submitted{ID: jg.Job}
	case "unread":
		g.Read = false
	case "no-permit":
		g.Permit = false
	case "halt":
		g.Halt = &record.Halt{Why: "asked to", Save: w[2] == "save"}
		if len(w) > 3 {
			stop := number(strings.TrimPrefix(w[3], "stop_after="))
			g.Halt.StopAfter = &stop
		}
	case "collected":
		g.Plan, g.Permit, g.Halt, g.Spec = nil, false, nil, nil
	case "peer":
		p := m.peer(jg, cluster.NodeID(w[2]))
		switch w[3] {
		case "failed":
			p.Failed = &record.Failed{Reason: strings.Join(w[4:], " ")}
		case "gone":
			p.Gone = true
		case "offered":
			p.Offered = number(w[4])
		case "saved":
			member, _, _ := g.Plan.World.Member(p.Node)
			s := record.Saved{}
			for i := range member.Devices {
				s.Ranks = append(s.Ranks, member.FirstRank+i)
			}
			p.Saved[number(w[4])] = s
		}
	default:
		return false
	}
	return true
}

func (m *model) shimFact(jg record.JobGen, w []string) bool {
	r := m.run(jg)
	switch w[0] {
	case "shim":
		r.Shim = map[string]Shim{"live": Live, "dead": Dead, "starting": Starting, "absent": Absent}[w[2]]
		if r.Shim != Live {
			r.Pushed = nil
		}
	case "workers":
		for i := range int(number(w[2])) {
			rep := m.report(jg)
			rep.Workers = append(rep.Workers, record.Worker{Rank: i, PID: 1000 + i})
		}
	case "held":
		m.report(jg).Held = &record.Held{SDK: w[2] == "sdk", Begun: number(w[3])}
	case "worker-failed":
		m.report(jg).Failed = &record.Failed{Kind: record.WorkerFailed, Reason: strings.Join(w[2:], " ")}
	case "save":
		rep := m.report(jg)
		rep.Saves = append(rep.Saves, Save{Rank: int(number(w[2])), Step: number(w[3]), Dir: "/ck/step-" + w[3]})
	case "stopped":
		s := &record.Stopped{Finished: w[2] == "finished"}
		if w[2] == "signalled" {
			s.SignalledAt = epoch()
			s.Exits = append(s.Exits, record.Exit{Code: int(number(w[3]))})
		}
		m.report(jg).Stopped = s
	default:
		return false
	}
	return true
}

func (m *model) runFact(jg record.JobGen, w []string) bool {
	r := m.run(jg)
	switch w[0] {
	case "plain":
		r.Plain = &Plain{Step: -1, Samples: -1, Final: w[len(w)-1] == "final"}
		for _, word := range w {
			if text, ok := strings.CutPrefix(word, "samples="); ok {
				r.Plain.Samples = number(text)
			}
		}
		if w[2] != "none" {
			r.Plain.Step, r.Plain.Whole = number(w[2]), w[3] == "whole"
			r.Plain.Dir = map[bool]string{true: "/ck", false: "/ck/step-" + w[2]}[r.Plain.Whole]
		}
	case "told": // by the SDK: told JOB/GEN STEP SAMPLES
		m.report(jg).Progress = &record.JobProgress{Step: number(w[2]), Samples: number(w[3])}
	case "refused":
		r.Shim = Absent
		r.Refused = &record.Failed{Kind: record.NodeRefused, Reason: strings.Join(w[2:], " "), Rank: -1}
	case "damaged":
		r.Refused = &record.Failed{Kind: record.CheckpointDamaged, Reason: strings.Join(w[2:], " "), Rank: -1}
	case "broken":
		r.Digests[number(w[3])] = Work[record.Saved]{Done: true, Err: "input/output error"}
	case "unmergeable":
		r.Merges[number(w[3])] = Work[record.Offer]{Done: true, Err: "is a directory"}
	case "unheeded": // by a shim that was told to kill, or to go
		r.ToldToKill, r.ToldToGo = HangPatience, HangPatience
	case "unkillable":
		m.report(jg).Unkillable = []int{1000}
	case "struck":
		r.Killed = true
	case "doomed": // its device is withheld
		r.KillPending = []int{int(number(w[2]))}
	case "quiet":
		r.Quiet = OfferPatience
	default:
		return false
	}
	return true
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
