package rundir

import (
	"fmt"
	"hash/fnv"
	"os"
	"strings"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/systemd"
)

// GroupName is unique on the machine, also where several nodes of one cluster
// run on it, and tells people whose it is.
func GroupName(o run.Order, dir string) string {
	return fmt.Sprintf("bellows-%s-g%d-%s-%d", JobLabel(o.World.Job), o.World.Generation, Name(dir), os.Getpid())
}

// Name is a short name of a run directory, by which what bears it can be found.
func Name(dir string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(dir))
	return fmt.Sprintf("%08x", h.Sum32())
}

// ScopeSuffix ends the names of the cgroups that are systemd scopes.
const ScopeSuffix = ".scope"

// RunNamed is the name, as Name has it, of the run that a cgroup's name says that
// it was made for; empty if it is neither a GroupName nor a ScopeName. It is the
// part before the last, which no job's name gets to.
func RunNamed(group string) string {
	parts := strings.Split(strings.TrimSuffix(group, ScopeSuffix), "-")
	if len(parts) < 4 || parts[0] != "bellows" {
		return ""
	}
	return parts[len(parts)-2]
}

// JobLabel is the name of a job as part of other names; "job" for one that could look like something else in them.
func JobLabel(j cluster.JobID) string {
	if cluster.CheckName(string(j)) != nil {
		return "job"
	}
	return string(j)
}

// ScopeName is the name of the systemd scope of a run's shim.
func ScopeName(o run.Order, dir string) string {
	return systemd.ScopeName(JobLabel(o.World.Job), uint64(o.World.Generation), Name(dir))
}
