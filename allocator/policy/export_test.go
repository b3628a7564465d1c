package policy

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bellows-ml/bellows/allocator"
)

// Page is the table as docs/policies.md has it.
func Page() string {
	var out strings.Builder
	out.WriteString("| name | choose it where | in one line | looks at | from |\n|---|---|---|---|---|\n")
	for _, e := range table {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", e.policy.Name(), cmp.Or(e.use, "for comparison"), e.about, e.looks, e.from)
	}
	return out.String()
}

// LeavesIdle reports whether the policy declares that it leaves devices idle by design.
func LeavesIdle(p allocator.Policy) bool {
	_, ok := p.(leavesIdle)
	return ok
}

// MovesAgain reports whether the policy declares that starting a job can move others once more.
func MovesAgain(p allocator.Policy) bool {
	_, ok := p.(movesAgain)
	return ok
}

// SplitFast is splitFast.
var SplitFast = splitFast
