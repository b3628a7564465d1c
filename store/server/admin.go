package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/bellows-ml/bellows/store"
)

const (
	// steadyWithin bounds how long a change of the membership waits until the
	// members have been connected for as long as etcd requires.
	steadyWithin = 15 * time.Second
	// changeRetry is the pause between two attempts at such a change.
	changeRetry = time.Second
)

// Admin changes and inspects the etcd that a Store is connected to: its members,
// its snapshots, its disk space. It is safe for concurrent use and ends with the
// Store.
type Admin struct {
	store  *store.Store
	client *clientv3.Client
}

// NewAdmin returns the administration of the etcd behind s.
func NewAdmin(s *store.Store) *Admin { return &Admin{s, s.Client()} }

// MemberStatus is what a member of etcd says of itself, or why it does not answer.
type MemberStatus struct {
	Member
	Client  string // its address for clients; empty = it has never started
	Leader  bool
	Learner bool // it has not caught up yet and does not vote
	// Problem is why it does not answer, or the errors that it reports; empty = none.
	Problem string
	Answers bool
	Version string
	Bytes   int64 // its database on disk
	InUse   int64 // the part of Bytes that holds data

	id uint64
}

// Members lists the members, sorted by name, with the status of each. It works
// without a quorum on a Store that was opened with Config.AnyMember.
func (a *Admin) Members(ctx context.Context) ([]MemberStatus, error) {
	ctx, cancel := a.store.WithCallTimeout(ctx)
	defer cancel()
	list, err := a.client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, fmt.Errorf("list members of etcd: %w", store.Named(err))
	}
	all := make([]MemberStatus, len(list.Members))
	var wg sync.WaitGroup
	for i, m := range list.Members {
		all[i] = MemberStatus{Member: Member{Name: m.Name, URL: strings.Join(m.PeerURLs, ",")}, Learner: m.IsLearner, id: m.ID}
		if len(m.ClientURLs) > 0 {
			all[i].Client = m.ClientURLs[0]
			wg.Go(func() { a.ask(ctx, &all[i]) })
		}
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b MemberStatus) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.URL, b.URL)) })
	return all, nil
}

// ask fills in one member's status.
func (a *Admin) ask(ctx context.Context, m *MemberStatus) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := a.client.Status(ctx, m.Client)
	if err != nil {
		m.Problem = a.store.Probe(context.WithoutCancel(ctx), m.Client)
		return
	}
	m.Answers, m.Version, m.Leader = true, status.Version, status.Leader == m.id
	m.Bytes, m.InUse = status.DbSize, status.DbSizeInUse
	m.Problem = strings.Join(status.Errors, ", ")
	if status.Leader == 0 {
		m.Problem = "it sees no leader"
	}
}

// AddMember adds a member to the cluster as a learner. A server with that name and
// address, started without data, then becomes this member; it votes once it has
// caught up. Adding a member a second time before it has started has no effect.
func (a *Admin) AddMember(ctx context.Context, m Member) error {
	if _, err := memberURL(m); err != nil {
		return err
	}
	members, err := a.Members(ctx)
	if err != nil {
		return err
	}
	for _, other := range members {
		switch {
		case other.URL == m.URL && other.Client == "":
			return nil // it was added before and has not started yet
		case other.Learner:
			// etcd refuses this too, but not after a restart.
			return fmt.Errorf("add %s: another member, at %s, is joining: start it and wait until it votes, or remove it: bellows etcd remove %s",
				m.Name, other.URL, cmp.Or(other.Name, other.URL))
		case other.URL == m.URL:
			return fmt.Errorf("add %s: %s is member %s: remove that one first, if it is lost", m.Name, m.URL, other.Name)
		case other.Name == m.Name:
			return fmt.Errorf("add %s: there is a member of this name, at %s: if it is lost: bellows etcd remove %s", m.Name, other.URL, m.Name)
		}
	}
	err = a.carryOut(ctx, change{
		try: func(ctx context.Context) error {
			_, refusal := a.client.MemberAddAsLearner(ctx, []string{m.URL})
			return refusal
		},
		done: func(now []MemberStatus) bool {
			return slices.ContainsFunc(now, func(other MemberStatus) bool { return other.URL == m.URL })
		},
	})
	if err != nil {
		return fmt.Errorf("add %s: %w", m.Name, err)
	}
	return nil
}

// change is a change of the membership and the test of whether it has happened.
type change struct {
	try  func(context.Context) error
	done func([]MemberStatus) bool
}

// carryOut repeats a change until it has happened or is refused. etcd refuses
// changes until the present members have been connected for five seconds. Its
// answer gets lost if the member that was asked is the one that is removed, so the
// list of members decides.
func (a *Admin) carryOut(ctx context.Context, c change) error {
	for deadline := time.Now().Add(steadyWithin); ; {
		attempt, cancel := a.store.WithCallTimeout(ctx)
		err := c.try(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if members, listErr := a.Members(ctx); listErr == nil && c.done(members) {
			return nil
		}
		unhealthy := errors.Is(err, rpctypes.ErrUnhealthy)
		switch {
		case ctx.Err() != nil, store.Refused(err) && !unhealthy, time.Now().After(deadline) && !unhealthy:
			return store.Named(err)
		case time.Now().After(deadline):
			return fmt.Errorf("%w: a member does not answer: bellows etcd members says which: bring it back, or remove that one first", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(changeRetry):
		}
	}
}

// RemoveMember removes the member with this name or address from the cluster. It
// refuses if the remaining members would have no quorum.
func (a *Admin) RemoveMember(ctx context.Context, name string) error {
	members, err := a.Members(ctx)
	if err != nil {
		return err
	}
	id, err := removable(members, name)
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	err = a.carryOut(ctx, change{
		try: func(ctx context.Context) error {
			_, refusal := a.client.MemberRemove(ctx, id)
			return refusal
		},
		done: func(now []MemberStatus) bool {
			return !slices.ContainsFunc(now, func(other MemberStatus) bool { return other.id == id })
		},
	})
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// removable returns the id of the member to remove if the others have a quorum without it.
func removable(members []MemberStatus, name string) (uint64, error) {
	at := slices.IndexFunc(members, func(m MemberStatus) bool { return m.Name == name || m.URL == name })
	if at < 0 {
		names := make([]string, len(members))
		for i, m := range members {
			names[i] = cmp.Or(m.Name, m.URL)
		}
		return 0, fmt.Errorf("there is no such member: there are %s", strings.Join(names, ", "))
	}
	if members[at].Learner {
		return members[at].id, nil
	}
	var voters int
	var silent []string
	for i, m := range members {
		if i == at || m.Learner {
			continue
		}
		voters++
		if !m.Answers {
			silent = append(silent, m.Name)
		}
	}
	answering := voters - len(silent)
	switch {
	case voters == 0:
		return 0, errors.New("it is the only member that votes, and has all data")
	case answering < voters/2+1:
		return 0, fmt.Errorf("of the %d members that would be left only %d would answer (not %s), and they would have no quorum: bring another back first",
			voters, answering, strings.Join(silent, ", "))
	}
	return members[at].id, nil
}

// Compact discards etcd's history, defragments the database of one member after
// the other, and ends the alarm of a full database. Each member answers nothing
// while it defragments, for about a second per 100 MB.
func (a *Admin) Compact(ctx context.Context) error {
	members, err := a.Members(ctx)
	if err != nil {
		return err
	}
	now, err := a.client.Get(ctx, "-", clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("compact etcd: %w", store.Named(err))
	}
	_, err = a.client.Compact(ctx, now.Header.GetRevision(), clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact etcd: %w", store.Named(err))
	}
	// The leader comes last: it hands over to a member that is done.
	slices.SortStableFunc(members, func(a, b MemberStatus) int { return cmp.Compare(fmt.Sprint(a.Leader), fmt.Sprint(b.Leader)) })
	var errs error
	for _, m := range members {
		if m.Client == "" || !m.Answers {
			continue
		}
		if _, err = a.client.Defragment(ctx, m.Client); err != nil {
			errs = errors.Join(errs, fmt.Errorf("defragment member %s: %w", m.Name, store.Named(err)))
		}
	}
	alarms, err := a.client.AlarmList(ctx)
	if err != nil {
		return errors.Join(errs, fmt.Errorf("list alarms of etcd: %w", store.Named(err)))
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		if _, err = a.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm)); err != nil {
			errs = errors.Join(errs, fmt.Errorf("end the alarm of etcd: %w", store.Named(err)))
		}
	}
	return errs
}
