package policy

import (
	"fmt"
	"strings"

	"github.com/bellows-ml/bellows/allocator"
)

// table lists the policies: first those that are offered to operators, then those that are there to compare with. A cluster
// may be set to any. docs/policies.md begins with it, as go test -update writes it there.
var table = []entry{
	{flowtime{}, "the least sum of all completion times, rescales paid for, beside what is promised and under a bound on waiting; decides at arrivals and ends too", "remaining time or service, speeds, start costs, priority", "after Berg et al. and Smith", "jobs end as soon as they can, on average; no job waits for ever"},
	{share{}, "equal shares in powers of two; higher priority, then earlier submission first", "priority", "", "everybody has the same"},
	{fifo(), "first come first served; no job is passed over or halted", "", "", "a queue, as of a batch system"},
	{priority(), "highest priority first, preempting", "priority", "", "who matters more goes first, and takes devices back"},
	{jahani{}, "the least cost of lateness and of nodes' prices; a dear node stays idle where waiting costs less", "deadlines, prices of nodes, remaining time, speeds, start costs, priority", "Jahani et al., Optimizing on-demand GPUs", "nodes cost money by the hour, and lateness has a price"},
	{greedy{}, "idle devices go to the first in the queue, then to the shortest-trained; the longest-trained is halved for a waiting job", "training time", "Hu et al., section 3", ""},
	{hu{}, "the most progress of all jobs over the next five intervals, optimal with a certified bound", "remaining time, speeds, start costs", "Hu et al., section 4", ""},
	{hesrpt{}, "shares by remaining work that are best for the mean completion time; the longest jobs may get nothing", "remaining time, speeds", "Berg et al., heSRPT", ""},
	{hesrpt{steady: true}, "the same shares after every job has the smallest size; no job grows that would not end sooner for it", "remaining time, speeds", "after Berg et al.", ""},
	{saxena{}, "the most samples a second of all jobs, each against what one device does, at the best batch of its range for each size", "speeds, batch ranges, start costs", "Saxena et al.", ""},
	{convergence{}, "shares by how far each job's loss has come: more to the one that converges, the least to one that gains nothing", "losses, speeds", "after Wei and Shudo", ""},
	{optimus{}, "every device to the job whose remaining time it shortens most", "remaining time, speeds", "Peng et al., Optimus", ""},
	{elasticflow{}, "promised deadlines kept, then others by deadline, what is left by marginal return", "deadlines, remaining time, speeds, start costs", "Gu et al., ElasticFlow", ""},
	{edf(), "promised deadlines kept at full sizes, then earliest deadline first", "deadlines", "Liu and Layland", ""},
	{srtf(), "shortest remaining time first", "remaining time, speeds", "Schrage; Muri", ""},
	{srsf(), "least remaining device time first", "remaining time, speeds", "Tiresias; Muri", ""},
	{las(), "least attained device time first; equals take turns", "service", "Tiresias", ""},
	{tiresias(), "three queues by attained device time; running jobs of a queue go on", "service", "Gu et al., Tiresias-L", ""},
}

// Default is the policy of coordinators, of bellows dev and of simulations that are not told one.
const Default = "flowtime"

type entry struct {
	policy allocator.Policy
	about  string // in one line
	looks  string // at what of jobs and nodes
	from   string // the source
	use    string // what an operator would choose it for; "" = it is there to compare with
}

// What a policy may declare in its own file: the property suite demands more of
// policies that do not.
type (
	// leavesIdle policies leave devices idle by design when no job would gain by more
	// of them. None leaves any idle while a job waits that could start on them, but for
	// jahani on nodes that have a price.
	leavesIdle interface{ leavesIdle() }
	// movesAgain policies treat a job that waits differently from one that runs, so
	// that starting one can move others once more.
	movesAgain interface{ movesAgain() }
)

// Offered returns the names of the policies that an operator would choose from, in order.
func Offered() []string {
	var names []string
	for _, e := range table {
		if e.use != "" {
			names = append(names, e.policy.Name())
		}
	}
	return names
}

// Usage says for the help of a flag which policies there are.
func Usage() string {
	offered := Offered()
	return strings.Join(offered, ", ") + "; for comparison: " + strings.Join(Names()[len(offered):], ", ")
}

// Names returns the names of all policies, those that are offered first.
func Names() []string {
	names := make([]string, len(table))
	for i, e := range table {
		names[i] = e.policy.Name()
	}
	return names
}

// FixedSizes reports whether the policy with this name gives a job its full size
// or nothing. To compare such a policy with an elastic one, the full size has to
// be what the job's user asked for, not the most that it could use.
func FixedSizes(name string) bool {
	p, err := ByName(name)
	return err == nil && fixedSizes(p)
}

// ByName returns the policy with this name.
func ByName(name string) (allocator.Policy, error) {
	for _, e := range table {
		if e.policy.Name() == name {
			return e.policy, nil
		}
	}
	return nil, fmt.Errorf("policy %q: there is no such policy; use one of %s", name, Usage())
}

// About says in one line what the policy with this name does, for help texts; "" if there is none.
func About(name string) string {
	for _, e := range table {
		if e.policy.Name() == name {
			if e.use != "" {
				return e.use + ": " + e.about
			}
			return "for comparison: " + e.about
		}
	}
	return ""
}
