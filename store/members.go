package store

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
)

// steadyWithin is how long a change of the members waits for them to be connected.
const steadyWithin = 15 * time.Second

// MemberStatus is what is known of one member of etcd.
type MemberStatus struct {
	Member
	Client  string // where clients reach it; empty = it has never started
	Leader  bool
	Learner bool // it has not caught up yet, and does not vote
	// Problem is why it does not answer, or what it complains of; empty = none.
	Problem string
	Answers bool
	Version string
	Bytes   int64 // its database on disk
	InUse   int64 // what of that holds data

	id uint64
}

// Members lists the members, sorted by name, and asks each how it is. It works
// without a quorum, on a Store that was opened with Config.AnyMember.
func (s *Store) Members(ctx context.Context) ([]MemberStatus, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	list, err := s.client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, fmt.Errorf("list members of etcd: %w", named(err))
	}
	all := make([]MemberStatus, len(list.Members))
	var wg sync.WaitGroup
	for i, m := range list.Members {
		all[i] = MemberStatus{Member: Member{Name: m.Name, URL: strings.Join(m.PeerURLs, ",")}, Learner: m.IsLearner, id: m.ID}
		if len(m.ClientURLs) > 0 {
			all[i].Client = m.ClientURLs[0]
			wg.Go(func() { s.ask(ctx, &all[i]) })
		}
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b MemberStatus) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.URL, b.URL)) })
	return all, nil
}

// ask fills in what a member says of itself.
func (s *Store) ask(ctx context.Context, m *MemberStatus) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := s.client.Status(ctx, m.Client)
	if err != nil {
		m.Problem = s.cfg.probe(context.WithoutCancel(ctx), m.Client)
		return
	}
	m.Answers, m.Version, m.Leader = true, answer.Version, answer.Leader == m.id
	m.Bytes, m.InUse = answer.DbSize, answer.DbSizeInUse
	m.Problem = strings.Join(answer.Errors, ", ")
	if answer.Leader == 0 {
		m.Problem = "it sees no leader"
	}
}

// AddMember makes a place for a member at an address, which a server with that
// name and address, and without data, then takes. It does not count for a quorum
// before it has caught up.
func (s *Store) AddMember(ctx context.Context, m Member) error {
	if _, err := memberURL(m); err != nil {
		return err
	}
	members, err := s.Members(ctx)
	if err != nil {
		return err
	}
	for _, other := range members {
		switch {
		case other.URL == m.URL && other.Client == "":
			return nil // it was added before and has not started yet
		case other.Learner:
			// etcd would say so, too, but forgets it when it starts again.
			return fmt.Errorf("add %s: another member, at %s, is joining: start it and wait until it votes, or remove it: bellows etcd remove %s",
				m.Name, other.URL, cmp.Or(other.Name, other.URL))
		case other.URL == m.URL:
			return fmt.Errorf("add %s: %s is member %s: remove that one first, if it is lost", m.Name, m.URL, other.Name)
		case other.Name == m.Name:
			return fmt.Errorf("add %s: there is a member of this name, at %s: if it is lost: bellows etcd remove %s", m.Name, other.URL, m.Name)
		}
	}
	err = s.carryOut(ctx, change{
		try: func(ctx context.Context) error {
			_, refusal := s.client.MemberAddAsLearner(ctx, []string{m.URL})
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

// change is a change of the members, and how to see that it has happened.
type change struct {
	try  func(context.Context) error
	done func([]MemberStatus) bool
}

// carryOut tries until the change has happened or is refused. etcd takes none
// before the members that are there have been connected for five seconds; and its
// answer is lost where the member that was asked is the one that goes.
func (s *Store) carryOut(ctx context.Context, c change) error {
	for deadline := time.Now().Add(steadyWithin); ; {
		attempt, cancel := s.call(ctx)
		err := c.try(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if members, listErr := s.Members(ctx); listErr == nil && c.done(members) {
			return nil
		}
		unhealthy := errors.Is(err, rpctypes.ErrUnhealthy)
		switch {
		case ctx.Err() != nil, refused(err) && !unhealthy, time.Now().After(deadline) && !unhealthy:
			return named(err)
		case time.Now().After(deadline):
			return fmt.Errorf("%w: a member does not answer: bellows etcd members says which: bring it back, or remove that one first", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(tendEvery):
		}
	}
}

// RemoveMember takes the member of a name, or at an address, out of the cluster.
// It refuses where what is left would have no quorum.
func (s *Store) RemoveMember(ctx context.Context, name string) error {
	members, err := s.Members(ctx)
	if err != nil {
		return err
	}
	id, err := removable(members, name)
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	err = s.carryOut(ctx, change{
		try: func(ctx context.Context) error {
			_, refusal := s.client.MemberRemove(ctx, id)
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

// removable finds the member to remove, if the others can do without it.
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

// Compact frees what etcd keeps of the past, gives the room back to the disk,
// one member after the other, and ends the alarm that goes with a full database.
// Each member stands still while it does so, for about a second per 100 MB.
func (s *Store) Compact(ctx context.Context) error {
	members, err := s.Members(ctx)
	if err != nil {
		return err
	}
	now, err := s.client.Get(ctx, "-", clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("compact etcd: %w", named(err))
	}
	_, err = s.client.Compact(ctx, now.Header.GetRevision(), clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact etcd: %w", named(err))
	}
	// The leader last: it hands over to one that is done.
	slices.SortStableFunc(members, func(a, b MemberStatus) int { return cmp.Compare(fmt.Sprint(a.Leader), fmt.Sprint(b.Leader)) })
	var errs error
	for _, m := range members {
		if m.Client == "" || !m.Answers {
			continue
		}
		if _, err = s.client.Defragment(ctx, m.Client); err != nil {
			errs = errors.Join(errs, fmt.Errorf("defragment member %s: %w", m.Name, named(err)))
		}
	}
	alarms, err := s.client.AlarmList(ctx)
	if err != nil {
		return errors.Join(errs, fmt.Errorf("list alarms of etcd: %w", named(err)))
	}
	for _, a := range alarms.Alarms {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		if _, err = s.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
			errs = errors.Join(errs, fmt.Errorf("end the alarm of etcd: %w", named(err)))
		}
	}
	return errs
}
