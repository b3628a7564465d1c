package settings

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
)

// UnlimitedUsers is the flag that names the users without limits.
const UnlimitedUsers = "unlimited-users"

// userFlags say what one user may have of the cluster.
type userFlags struct {
	record.Limits

	bytes     units.Bytes
	unlimited []string
	lookup    func(name string) (*user.User, error)
}

// errNoDirectory passes by itself: at boot a directory of users may come up after
// the coordinator. A user that it does not know is another fault.
var errNoDirectory = errors.New("users cannot be looked up now")

func newUserFlags(f *flags.Set) *userFlags {
	u := &userFlags{Limits: record.DefaultLimits(), lookup: user.Lookup}
	u.bytes = units.Bytes(u.Bytes)
	f.IntVar(&u.LiveJobs, "user-live-jobs", u.LiveJobs, "how many jobs of one user may wait or run")
	f.IntVar(&u.KeptJobs, "user-kept-jobs", u.KeptJobs, "how many jobs of one user that have ended are kept, for as long as --keep-jobs; of more, those that ended first are forgotten, minutes after their end")
	f.Var(&u.bytes, "user-bytes", "how much of etcd the specs of one user's live jobs may take; those of jobs that have ended are kept in half as much")
	f.IntVar(&u.Submits, "user-submits-per-minute", u.Submits, "how many jobs one user may submit in a minute; each 8 KiB of a spec count as one more")
	f.IntVar(&u.Connections, "user-connections", u.Connections, "how many connections one user may have to an agent")
	f.IntVar(&u.Priority, "user-priority", u.Priority, fmt.Sprintf("the highest --priority that users may give their jobs, up to %d", cluster.MaxPriority))
	f.StringSliceVar(&u.unlimited, UnlimitedUsers, nil, "users, by name or uid, without the --user-… limits; root is one of them")
	return u
}

// leastConnections lets a user follow a job's state and its logs, and ask for something besides.
const leastConnections = 4

// limits are what the flags say.
func (u *userFlags) limits() (record.Limits, error) {
	l := u.Limits
	var bad fault.List
	for _, f := range []struct {
		flag         string
		value, least int
	}{
		{"user-live-jobs", l.LiveJobs, 1},
		{"user-kept-jobs", l.KeptJobs, 1},
		{"user-submits-per-minute", l.Submits, 1},
		{"user-connections", l.Connections, leastConnections},
	} {
		if f.value < f.least {
			bad.Add(fault.Usage("--%s %d: use %d or more", f.flag, f.value, f.least))
		}
	}
	if l.Priority < -cluster.MaxPriority || l.Priority > cluster.MaxPriority {
		bad.Add(fault.Usage("--user-priority %d: use -%d to %d", l.Priority, cluster.MaxPriority, cluster.MaxPriority))
	}
	if l.Bytes = int64(u.bytes); l.Bytes < cluster.MaxSpecBytes {
		bad.Add(fault.Usage("--user-bytes %d: use %d bytes or more, as in 64M: one job may take so much", l.Bytes, cluster.MaxSpecBytes))
	}
	for _, name := range u.unlimited {
		id := name
		known, err := u.lookup(name)
		if err == nil {
			id = known.Uid
		}
		uid, notUID := strconv.ParseUint(id, 10, 32)
		if _, unknown := errors.AsType[user.UnknownUserError](err); notUID != nil && err != nil && !unknown {
			bad.Add(fmt.Errorf("--%s %.40q: %w: %w", UnlimitedUsers, name, errNoDirectory, err))
			continue
		}
		if notUID != nil {
			bad.Add(fault.Usage("--%s %.40q: use names of users that this machine knows, or their uids", UnlimitedUsers, name))
			continue
		}
		l.Exempt = append(l.Exempt, uint32(uid))
	}
	return l, bad.Err()
}
