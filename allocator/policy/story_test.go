package policy_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

var update = flag.Bool("update", false, "rewrite the expected lines of the stories, and the table of docs/policies.md")

// TestStories plays testdata/NAME.txt, which every policy has. A story is lines of
//
//	reset                      forget everything, as at the beginning of each part
//	interval 30s               the time between decisions
//	node NAME DEVICES          a node joins
//	cordon NAME, lose NAME     a node gets no new work, or is gone
//	job NAME [sizes=1..8] [workers=2] [trained=5m] [remaining=1h] [priority=1]
//	         [deadline=3h] [exclude=n1,n2] [speeds=1,1.6] [starts=5s,60s] [samples=1,1.9 [slow=0.6]] [pinned]
//	         [fall=0.1] [flat=its_loss_rises] [range=128..512 [uneven]]      a job, submitted a second after the last one
//	pin NAME, unpin NAME, end NAME
//	advance 5m                 time passes; what runs is trained
//	decide, decide between     the policy is asked, and its answer put in force
//
// and, indented below each decide, every job with its workers and the devices left idle.
// A word that an event does not know ends the test: it would change nothing.
func TestStories(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			p, err := policy.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".txt")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("every policy has its stories: %v", err)
			}
			got := play(t, p, string(text))
			if got == string(text) {
				return
			}
			if !*update {
				t.Fatalf("%s: the story now reads (-update accepts it)\n%s", path, got)
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

type story struct {
	t   *testing.T
	in  allocator.Input
	out strings.Builder
}

func play(t *testing.T, p allocator.Policy, text string) string {
	s := &story{t: t, in: allocator.Input{Now: epoch}}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") {
			continue // an expected line
		}
		s.out.WriteString(line)
		if f := strings.Fields(line); len(f) > 0 && f[0][0] != '#' {
			s.event(p, f)
		}
	}
	return s.out.String()
}

// wordsOf is how many words an event has, with its own.
var wordsOf = map[string]int{
	"reset": 1, "interval": 2, "node": 3, "price": 3, "cordon": 2, "lose": 2, "pin": 2, "unpin": 2, "end": 2, "advance": 2, "decide": 1,
}

func isBetween(f []string) bool { return slices.Equal(f, []string{"decide", "between"}) }

// fit reports why an event would not know one of its words, or lacks one.
func fit(f []string) error {
	if n, fixed := wordsOf[f[0]]; fixed && len(f) != n && !isBetween(f) {
		return fmt.Errorf("%s has %d words after it, want %d", f[0], len(f)-1, n-1)
	}
	return nil
}

func TestAnEventKnowsItsWords(t *testing.T) {
	for _, line := range []string{"reset all", "node a", "node a 8 4", "advance 5m 6m", "decide twice", "decide between all", "interval"} {
		if fit(strings.Fields(line)) == nil {
			t.Errorf("%q is taken for an event with all its words", line)
		}
	}
}

func (s *story) event(p allocator.Policy, f []string) {
	s.in.Between = isBetween(f)
	s.must(fit(f), f)
	switch f[0] {
	case "reset":
		s.in = allocator.Input{Now: epoch}
	case "interval":
		var err error
		s.in.Interval, err = time.ParseDuration(f[1])
		s.must(err, f)
	case "node":
		count, err := strconv.Atoi(f[2])
		s.must(err, f)
		n := cluster.Node{ID: cluster.NodeID(f[1])}
		for i := range count {
			n.Devices = append(n.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprint(f[1], ".", i)), Health: cluster.Healthy})
		}
		s.in.Nodes = append(s.in.Nodes, n)
	case "price": // of a node, an hour
		price, err := strconv.ParseFloat(f[2], 64)
		s.must(err, f)
		s.in.Nodes[s.node(f[1])].PricePerHour = price
	case "cordon":
		s.in.Nodes[s.node(f[1])].Cordoned = true
	case "lose":
		s.in.Nodes = slices.Delete(s.in.Nodes, s.node(f[1]), s.node(f[1])+1)
	case "job":
		s.job(f)
	case "pin", "unpin":
		s.in.Jobs[s.find(f[1])].Pinned = f[0] == "pin"
	case "end":
		s.in.Jobs = slices.Delete(s.in.Jobs, s.find(f[1]), s.find(f[1])+1)
	case "advance":
		d, err := time.ParseDuration(f[1])
		s.must(err, f)
		s.advance(d)
	case "decide":
		s.decide(p)
	default:
		s.t.Fatalf("%q: no such event", f)
	}
}

func (s *story) must(err error, f []string) {
	if err != nil {
		s.t.Fatalf("%q: %v", f, err)
	}
}

func (s *story) node(name string) int {
	return slices.IndexFunc(s.in.Nodes, func(n cluster.Node) bool { return n.ID == cluster.NodeID(name) })
}

func (s *story) find(name string) int {
	return slices.IndexFunc(s.in.Jobs, func(j allocator.JobView) bool { return j.ID == cluster.JobID(name) })
}

func (s *story) job(f []string) {
	j := allocator.JobView{
		ID: cluster.JobID(f[1]), Sizes: []int{1, 2, 4, 8, 16}, BatchSize: cluster.BatchSize{Min: 1 << 16, Max: 1 << 16},
		SubmittedAt: s.in.Now.Add(time.Duration(len(s.in.Jobs)) * time.Second),
	}
	wanted := 0
	for _, option := range f[2:] {
		key, value, _ := strings.Cut(option, "=")
		var err error
		switch key {
		case "sizes":
			var low, high int
			if !strings.Contains(value, "..") {
				j.Sizes = nil
				for text := range strings.SplitSeq(value, ",") {
					size, errOne := strconv.Atoi(text)
					err = errors.Join(err, errOne)
					j.Sizes = append(j.Sizes, size)
				}
				j.BatchSize = cluster.BatchSize{Min: 12 << 14, Max: 12 << 14}
				break
			}
			_, err = fmt.Sscanf(value, "%d..%d", &low, &high)
			j.Sizes = slices.DeleteFunc(slices.Clone(powers()), func(k int) bool { return k < low || k > high })
		case "workers":
			wanted, err = strconv.Atoi(value)
		case "trained":
			j.Trained, err = time.ParseDuration(value)
		case "remaining":
			j.Work.Left, err = time.ParseDuration(value)
			j.Work.Known = true
		case "priority":
			j.Priority, err = strconv.Atoi(value)
		case "deadline":
			var d time.Duration
			d, err = time.ParseDuration(value)
			j.Deadline = s.in.Now.Add(d)
		case "exclude":
			for n := range strings.SplitSeq(value, ",") {
				j.Excluded = append(j.Excluded, cluster.NodeID(n))
			}
		case "speeds":
			for text := range strings.SplitSeq(value, ",") {
				speed, errOne := strconv.ParseFloat(text, 64)
				err = errors.Join(err, errOne)
				j.Speeds = append(j.Speeds, speed)
			}
		case "starts":
			for text := range strings.SplitSeq(value, ",") {
				cost, errOne := time.ParseDuration(text)
				err = errors.Join(err, errOne)
				j.StartCosts = append(j.StartCosts, cost)
			}
		case "staying":
			j.Staying, err = strconv.ParseFloat(value, 64)
			j.BatchSize.Max *= 2 // it has the smallest batch now
			j.Batches = slices.Repeat([]int{j.BatchSize.Max}, len(j.Sizes))
		case "samples": // with its largest batch at each size; it has the smallest now
			fastest := &allocator.Fastest{}
			j.BatchSize.Max *= 2
			for text := range strings.SplitSeq(value, ",") {
				speed, errOne := strconv.ParseFloat(text, 64)
				err = errors.Join(err, errOne)
				fastest.Speeds, fastest.Batches = append(fastest.Speeds, speed), append(fastest.Batches, j.BatchSize.Max)
			}
			j.Fastest = fastest
		case "fall":
			j.Loss = &allocator.Loss{}
			j.Loss.Fall, err = strconv.ParseFloat(value, 64)
		case "flat":
			j.Loss = &allocator.Loss{Flat: strings.ReplaceAll(value, "_", " ")}
		case "range": // of its batch, from its smallest
			var least, most int
			_, err = fmt.Sscanf(value, "%d..%d", &least, &most)
			j.BatchSize.Min, j.BatchSize.Max = least, most
		case "uneven": // shares of its batch may be
			j.BatchSize.Uneven = true
		case "slow": // what it does in samples with the batch that it has
			j.Fastest.Staying, err = strconv.ParseFloat(value, 64)
		case "pinned":
			j.Pinned = true
		default:
			s.t.Fatalf("%q: no such option", option)
		}
		s.must(err, f)
	}
	j.Service = j.Trained * time.Duration(wanted)
	s.in.Jobs = append(s.in.Jobs, j)
	if wanted > 0 {
		out := allocator.Output{}
		for _, o := range s.in.Jobs {
			out.Decisions = append(out.Decisions, allocator.Decision{Job: o.ID, Workers: o.Workers})
		}
		out.Decisions[len(out.Decisions)-1].Workers = wanted
		s.in = adopt(s.t, s.in, out)
	}
}

func powers() []int {
	var p []int
	for k := 1; k <= cluster.MaxWorldSize; k *= 2 {
		p = append(p, k)
	}
	return p
}

func (s *story) advance(d time.Duration) {
	s.in.Now = s.in.Now.Add(d)
	for i := range s.in.Jobs {
		j := &s.in.Jobs[i]
		if j.Workers == 0 {
			continue
		}
		j.Trained += d
		j.Service += d * time.Duration(j.Workers)
		if j.Work.Left > 0 {
			j.Work.Left = max(time.Second, j.Work.Left-time.Duration(float64(d)*goodput.Default(j.Workers)))
		}
	}
}

func (s *story) decide(p allocator.Policy) {
	out := ask(s.t, p, s.in)
	idle := allocator.NewDevices(s.in).Usable()
	next := adopt(s.t, s.in, out)
	devices := allocator.NewDevices(next)
	for i, d := range out.Decisions {
		for range devices.Held(next.Jobs[i]) {
			idle--
		}
		change := fmt.Sprint(d.Workers)
		if was := s.in.Jobs[i].Workers; was != d.Workers {
			change = fmt.Sprintf("%d -> %d", was, d.Workers)
		}
		if b := s.in.Jobs[i].BatchSize; b.Max > b.Min && s.in.Jobs[i].Batches == nil && d.Workers > 0 && d.BatchSize != s.in.Jobs[i].Present.BatchSize {
			change += fmt.Sprintf(" batch %d", d.BatchSize)
		}
		s.out.WriteString(strings.TrimSuffix(fmt.Sprintf("  %s %s: %s", d.Job, change, d.Reason), ": ") + "\n")
	}
	fmt.Fprintf(&s.out, "  idle %d\n", idle)
	s.in = next
}

// TestEveryPlaceInTestdataHasItsPolicy keeps stories of policies that are gone from staying behind.
func TestEveryPlaceInTestdataHasItsPolicy(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".txt"); !slices.Contains(policy.Names(), name) {
			t.Errorf("%s is of no policy in the table", f)
		}
	}
}

// TestThePageHasTheTable keeps docs/policies.md to what the table says.
func TestThePageHasTheTable(t *testing.T) {
	const path = "../../docs/policies.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "\n\n| name |")
	_, after, ended := strings.Cut(rest, "|\n\n")
	want := before + "\n\n" + policy.Page() + "\n" + after
	switch {
	case !found || !ended:
		t.Fatalf("%s has no table of policies", path)
	case want == string(text):
	case !*update:
		t.Errorf("the table of %s is not that of table.go: go test ./allocator/policy -update", path)
	default:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestByName(t *testing.T) {
	for _, name := range policy.Names() {
		if p, err := policy.ByName(name); err != nil || p.Name() != name || policy.About(name) == "" {
			t.Errorf("%s: %v, %v, %q", name, p, err, policy.About(name))
		}
	}
	if _, err := policy.ByName("best"); err == nil || !strings.Contains(err.Error(), `policy "best"`) || !strings.Contains(err.Error(), "flowtime, share, fifo, priority, jahani; for comparison: greedy, ") {
		t.Errorf("got %v", err)
	}
	if policy.About("best") != "" {
		t.Error("something is told about a policy that is not there")
	}
}

// TestBatchSizeStays checks that a job which keeps its workers keeps its batch size too.
func TestBatchSizeStays(t *testing.T) {
	n := cluster.Node{ID: "a", Devices: []cluster.Device{{ID: "0", Health: cluster.Healthy}}}
	j := allocator.JobView{ID: "x", Sizes: []int{1}, BatchSize: cluster.BatchSize{Min: 8, Max: 64}, Workers: 1}
	j.Present = place.Place([]cluster.Node{n}, nil, []place.Count{{Job: "x", Workers: 1, BatchSize: 48}}).Allocations[0]
	for _, name := range policy.Names() {
		p, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if out := ask(t, p, allocator.Input{Nodes: []cluster.Node{n}, Jobs: []allocator.JobView{j}}); out.Decisions[0].BatchSize != 48 {
			t.Errorf("%s changes the batch size from 48 to %d", name, out.Decisions[0].BatchSize)
		}
	}
}
