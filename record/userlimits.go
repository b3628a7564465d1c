package record

import "slices"

// Limits bound what one user may have of the cluster. The leader records those that
// it keeps to, so that agents refuse what it would refuse.
type Limits struct {
	LiveJobs int `json:"live_jobs"` // that have not ended
	KeptJobs int `json:"kept_jobs"` // that have: of more, those that ended first are deleted
	// Bytes bounds the specs and states of those that have not ended; those that have are kept in half as many.
	Bytes int64 `json:"bytes"`
	// Submits bounds the submissions of a minute; one counts once more for each 8 KiB of its spec.
	Submits     int      `json:"submits_per_minute"`
	Connections int      `json:"connections"`      // to one agent
	Priority    int      `json:"priority"`         // the highest
	Exempt      []uint32 `json:"exempt,omitempty"` // beside root
}

// DefaultLimits are generous to people and their scripts, and leave room for many
// users: etcd holds 2 GiB unless it is told otherwise.
func DefaultLimits() Limits {
	return Limits{LiveJobs: 2000, KeptJobs: 2000, Bytes: 64 << 20, Submits: 300, Connections: 128, Priority: 50}
}

// Exempts reports whether the limits are not a user's.
func (l Limits) Exempts(uid uint32) bool { return uid == 0 || slices.Contains(l.Exempt, uid) }

// Equal reports whether both are the same.
func (l Limits) Equal(other Limits) bool {
	return l.LiveJobs == other.LiveJobs && l.KeptJobs == other.KeptJobs && l.Bytes == other.Bytes && l.Submits == other.Submits &&
		l.Connections == other.Connections && l.Priority == other.Priority && slices.Equal(l.Exempt, other.Exempt)
}
