package agent_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

var update = flag.Bool("update", false, "rewrite the expected lines of the stories")

// TestStories plays each script on a machine in memory: a line is something that
// happens, and the indented lines below it are the actions that the agent begins
// then. Each is played several times over, because Go's map order differs each time.
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
			for range 5 {
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
	s := newStage()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		w := split(line)
		if len(w.text) == 0 || w.text[0] == "#" {
			continue
		}
		if !s.happens(w) {
			t.Fatalf("%q: a story has no such event", line)
		}
		if word := w.unread(); word != "" {
			t.Fatalf("%q: the event does not know the word %q", line, word)
		}
		s.net.Tick()
		for _, said := range s.said {
			out.WriteString("  " + said + "\n")
		}
		s.said = nil
	}
	return out.String()
}

// begins notes an action that the agent begins. A wish that only moves the deadline
// is left out: that is every renewal of the lease.
func (s *stage) begins(a agent.Action) {
	push, ok := a.(agent.Push)
	if _, starts := a.(agent.StartShim); starts {
		delete(s.pushed, a.Of())
	}
	if !ok {
		s.said = append(s.said, tell(a))
		return
	}
	_, rest, _ := strings.Cut(push.Wish.String(), " ")
	switch push.Wish.Deadline {
	case fence.Never:
	case 0:
		rest = "deadline=unknown " + rest
	default:
		rest = "deadline " + rest
	}
	said := strings.TrimSpace(fmt.Sprintf("push %s/%d %s", a.Of().Job, a.Of().Generation, rest))
	if s.pushed[a.Of()] != said {
		s.said = append(s.said, said)
		s.pushed[a.Of()] = said
	}
}

// tell writes an action with its content, as far as a story is about it.
func tell(a agent.Action) string {
	switch a := a.(type) {
	case agent.WriteAck:
		switch v := a.Value.(type) {
		case record.Failed:
			return fmt.Sprintf("%s %s: %s", a, v.Kind, v.Reason)
		case record.Started:
			how := ""
			if v.Warm {
				how = " warm"
			} else if v.Cold != "" {
				how = " cold"
			}
			return fmt.Sprintf("%s workers=%d%s", a, len(v.Workers), how)
		case record.Held:
			return fmt.Sprintf("%s sdk=%t begun=%d", a, v.SDK, v.Begun)
		case record.Stopped:
			saved, left := "no", ""
			if !v.SavedAt.IsZero() {
				saved = "yes"
			}
			if len(v.Unkillable) > 0 {
				left = fmt.Sprintf(" unkillable=%v", v.Unkillable)
			}
			return fmt.Sprintf("%s finished=%t saved=%s%s", a, v.Finished, saved, left)
		}
	case agent.WriteSaved:
		if a.Saved.Lost != "" {
			return fmt.Sprintf("%s lost: %s", a, a.Saved.Lost)
		}
	case agent.Digest:
		return fmt.Sprintf("%s samples=%d ranks=%v plain=%t dir=%q", a, a.Samples, a.Ranks, a.Plain, a.Dir)
	case agent.Merge:
		return fmt.Sprintf("%s parts=%d world=%d", a, len(a.Parts), a.WorldSize)
	default:
	}
	return a.String()
}

// mayBeSlow are the kinds of actions that may be, and the agent itself.
var mayBeSlow = []string{"agent", "verify", "startshim", "prepareshim", "bindrun", "digest", "merge", "sweep"}

// happens carries out one line of a story; false if there is no such word.
func (s *stage) happens(w words) bool {
	switch w.at(0) {
	case "pass":
		length, err := time.ParseDuration(w.at(1))
		if err != nil {
			panic(err)
		}
		s.net.Pass(length)
	case "crowd":
		s.crowd = int(number(w.at(1)))
	case "cut":
		length, err := time.ParseDuration(w.at(1))
		if err != nil {
			panic(err)
		}
		s.m.CutOff(s.net.Now() + length)
	case "launchers":
		s.m.LauncherMemory = number(w.at(1)) * machine.LauncherTakes
	case "expire":
		s.write(record.Delete(record.AliveKey(s.m.Node)))
	case "restart":
		s.m.StopAgent()
		clear(s.pushed)
		s.m.StartAgent()
	case "backup":
		s.backup = s.net.Memory.Backup()
	case "restore":
		s.net.Restore(s.backup)
	case "slow":
		if !slices.Contains(mayBeSlow, w.at(1)) {
			panic(fmt.Sprintf("slow %s: it is one of %s", w.at(1), mayBeSlow))
		}
		s.slow[w.at(1)] = true
	case "done":
		clear(s.slow)
		s.net.Pass(slowly)
	default:
		jg := named(w.at(1))
		return s.leads(jg, w) || s.peers(jg, w) || s.works(jg, w) || s.fails(jg, w)
	}
	return true
}

// how reports whether a word is the first of the two that it may be.
func how(word, yes, no string) bool {
	if word != yes && word != no {
		panic(fmt.Sprintf("%q is neither %s nor %s", word, yes, no))
	}
	return word == yes
}

// leads is what the leader writes, or a hand in its place.
func (s *stage) leads(jg record.JobGen, w words) bool {
	job, g := jg.Job, jg.Generation
	switch w.at(0) {
	case "plan":
		s.plan(jg, w.from(2))
	case "next":
		next := record.Next{Generation: g}
		next.Nonce, _ = w.value("nonce")
		if text, ok := w.value("workers"); ok {
			next.Workers = int(number(text))
		}
		s.write(record.Put(record.SpecKey(job), submitted(job)), record.Put(record.NextKey(s.m.Node, job), next))
	case "no-next":
		s.write(record.Delete(record.NextKey(s.m.Node, job)))
	case "no-permit":
		s.write(record.Delete(record.PermitKey(job, g)))
	case "halt":
		at := dawn.Add(s.net.Now())
		halt := record.Halt{Why: reason.Said("asked to"), Save: how(w.at(2), "save", "kill"), Terminate: w.has("terminate"), At: at, Deadline: at.Add(time.Hour)}
		if step, ok := w.value("stop_after"); ok {
			after := number(step)
			halt.StopAfter = &after
		}
		s.write(record.Put(record.HaltKey(job, g), halt))
	case "collect":
		s.write(record.DeletePrefix(record.GenerationPrefix(job, g)), record.Delete(record.GrantKey(s.m.Node, job)))
	case "delete-plan":
		s.write(record.DeletePrefix(record.GenerationPrefix(job, g)))
	case "misname":
		plan := s.plans[jg]
		plan.World.Generation++
		s.write(record.Put(record.PlanKey(job, g), plan))
	case "grant":
		s.write(record.Put(record.GrantKey(s.m.Node, job), record.Grant{Generation: g}))
	case "no-grant":
		s.write(record.Delete(record.GrantKey(s.m.Node, job)))
	default:
		return false
	}
	return true
}

// peers is what another member has written.
func (s *stage) peers(jg record.JobGen, w words) bool {
	if w.at(0) != "peer" {
		return false
	}
	world := s.plans[jg].World
	node := w.at(2)
	i := slices.IndexFunc(world.Members, member(node))
	if i < 0 {
		return false
	}
	m := world.Members[i]
	switch w.at(3) {
	case "failed":
		key := record.AckKey(m.Node, jg.Job, jg.Generation, record.AckFailed)
		s.write(record.Put(key, record.Failed{Kind: record.WorkerFailed, Reason: strings.Join(w.from(4), " "), Nonce: world.Nonce}))
	case "stopped":
		s.write(record.Put(record.AckKey(m.Node, jg.Job, jg.Generation, record.AckStopped), record.Stopped{Nonce: world.Nonce}))
	case "offered":
		offer := record.Offer{Nonce: world.Nonce, Checkpoint: record.Checkpoint{Generation: jg.Generation, Step: number(w.at(4))}}
		s.write(record.Put(record.OfferKey(m.Node, jg.Job, jg.Generation, number(w.at(4))), offer))
	case "saved":
		s.write(record.Put(record.SavedKey(m.Node, jg.Job, jg.Generation, number(w.at(4))), record.Saved{Ranks: m.Ranks(), Nonce: world.Nonce}))
	default:
		return false
	}
	return true
}

// works is what the workers of a generation here do.
func (s *stage) works(jg record.JobGen, w words) bool {
	switch w.at(0) {
	case "held":
		s.shim(jg).Holds(number(w.at(2)))
	case "plain":
		s.plain[jg.Job] = true
	case "save":
		s.shim(jg).Saved(number(w.at(2)), 0)
	case "left":
		samples := int64(-1)
		if text, ok := w.value("samples"); ok {
			samples = number(text)
		}
		s.shim(jg).Left(number(w.at(2)), samples, w.has("whole"))
	case "told":
		s.shim(jg).Progress(number(w.at(2)), number(w.at(3)))
	case "fail":
		s.shim(jg).Fail(int(number(w.at(2))))
	case "exit":
		s.shim(jg).Exit(int(number(w.at(2))))
	default:
		return false
	}
	return true
}

// fails is what goes wrong on the node.
func (s *stage) fails(jg record.JobGen, w words) bool {
	reason := func() string { return strings.Join(w.from(2), " ") }
	switch w.at(0) {
	case "crash":
		s.shim(jg).Crash()
	case "stillborn":
		s.shim(jg).Stillborn()
	case "hang":
		s.shim(jg).Hang(true)
	case "lose":
		s.m.LoseDirectory(jg)
	case "refuse":
		s.shimless[jg] = &record.Failed{Kind: record.NodeRefused, Reason: reason(), Rank: -1}
	case "damaged":
		s.damaged = true
	case "launcher":
		s.shim(jg).LoseLauncher()
	case "unpreparable":
		s.unpreparable[jg] = reason()
	case "unbindable":
		s.unbindable[jg] = reason()
	case "broken":
		s.broken[jg] = reason()
	case "unmergeable":
		s.unmergeable[jg] = reason()
	case "unkillable":
		s.unkillable[jg] = true
	case "release":
		delete(s.unkillable, jg)
		s.shim(jg).Release()
	default:
		return false
	}
	return true
}
