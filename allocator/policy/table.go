package policy

import (
	"fmt"
	"strings"

	"github.com/bellows-ml/bellows/allocator"
)

// table lists the policies in the order in which they are offered.
var table = []entry{
	{greedy{}, "as many devices as fit to the first in the queue; shortest-trained grow, longest-trained shrink (Hu et al., section 3)"},
	{hu{}, "most progress of all jobs over the next five intervals, with a certified bound (Hu et al., section 4)"},
	{share{}, "equal shares in powers of two, the higher priority and then the earlier job first"},
	{hesrpt{}, "shares by remaining work that are best for the mean completion time (Berg et al., heSRPT)"},
	{hesrpt{steady: true}, "heSRPT's shares, but every job runs, and grows only if it ends sooner for it"},
	{flowtime{}, "least completion time of all jobs, rescales paid for, at arrivals and ends too; a bound on waiting"},
	{saxena{}, "most samples a second of all jobs, each against one device, at the batch that scales (Saxena et al.)"},
	{convergence{}, "shares by how far each job's loss has come: more to a job that converges, least to one that gains nothing (after Wei and Shudo)"},
	{optimus{}, "every device to the job whose remaining time it shortens most (Peng et al., Optimus)"},
	{fifo(), "full sizes, first come first served, no job passes another"},
	{elasticflow{}, "promised deadlines kept, then others by deadline, what is left by marginal return (Gu et al., ElasticFlow)"},
	{jahani{}, "least cost of lateness and of nodes' prices, one node a job (Jahani et al.)"},
	{edf(), "full sizes, earliest deadline first"},
	{priority(), "full sizes, highest priority first"},
	{srtf(), "full sizes, shortest remaining time first"},
	{srsf(), "full sizes, least remaining device time first"},
	{las(), "full sizes, least attained device time first"},
	{tiresias(), "full sizes, three queues by attained device time (Gu et al., Tiresias-L)"},
}

// Default is the policy of coordinators, of bellows dev and of simulations that are not told one.
const Default = "flowtime"

type entry struct {
	policy allocator.Policy
	about  string
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

// Names returns the names of all policies, in the order in which they are offered.
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
	return nil, fmt.Errorf("policy %q: there is no such policy; use one of %s", name, strings.Join(Names(), ", "))
}

// About says in one line what the policy with this name does, for help texts; "" if there is none.
func About(name string) string {
	for _, e := range table {
		if e.policy.Name() == name {
			return e.about
		}
	}
	return ""
}
