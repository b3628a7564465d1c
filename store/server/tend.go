package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/url"
	"slices"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"

	"github.com/bellows-ml/bellows/store"
)

const (
	// tendEvery is how often a member checks itself.
	tendEvery = time.Second
	// leaderlessAfter is how long a member may be without a leader before it logs
	// that: several elections.
	leaderlessAfter = 5 * time.Second
	// changeTimeout bounds one change of the membership.
	changeTimeout = 5 * time.Second
)

// tend maintains one member of several until ctx ends: it promotes the member to a
// voter once it has caught up, announces a new address to the others, and logs which
// members do not answer. What fails is tried again a second later.
func (s *Server) tend(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	m := monitor{server: s, led: time.Now(), silent: map[string]bool{}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.etcd.Server.StopNotify():
			s.fail(ctx, nil)
			return
		case err := <-s.etcd.Err():
			s.fail(ctx, err)
			return
		case err := <-s.fatal.first:
			if isFull(err) {
				err = fmt.Errorf("%w: %s", err, fullRemedy)
			}
			s.cause = fmt.Errorf("etcd cannot go on: %w", err)
			close(s.ended)
			return
		case <-tick.C:
		}
		if len(s.cfg.Members) == 0 {
			continue
		}
		if s.etcd.Server.Leader() != 0 {
			s.establish(ctx)
		}
		m.check(ctx)
	}
}

// fail records why the server has ended.
func (s *Server) fail(ctx context.Context, err error) {
	if err == nil {
		err = errors.New("etcd has ended by itself: its last messages say why")
	}
	if s.isRemoved(ctx) {
		err = store.Unfitf("this member, %s, was removed from its cluster: to let the server join again, move %s away, "+
			"run elsewhere: bellows etcd add %s URL, and start it", s.cfg.Member, s.cfg.DataDir, s.cfg.Member)
	}
	s.cause = err
	close(s.ended)
}

// isRemoved reports whether the other members have a cluster without this one.
func (s *Server) isRemoved(ctx context.Context) bool {
	for _, a := range s.askPeers(ctx) {
		if len(a.members) > 0 {
			return !slices.ContainsFunc(a.members, func(m peerMember) bool { return m.ID == uint64(s.etcd.Server.MemberID()) })
		}
	}
	return false
}

// askPeers asks the other members: those in this server's data, or, while there are
// no data yet, those in its configuration.
func (s *Server) askPeers(ctx context.Context) []peerAnswer {
	p, err := s.cfg.peers()
	if err != nil {
		return []peerAnswer{{from: Member{Name: s.cfg.Member}, err: err}}
	}
	others := s.cfg.others()
	if known := s.etcd.Server.Cluster().Members(); len(known) > 0 {
		others = others[:0]
		for _, m := range known {
			if m.ID != s.etcd.Server.MemberID() && len(m.PeerURLs) > 0 {
				others = append(others, Member{Name: m.Name, URL: m.PeerURLs[0]})
			}
		}
	}
	return p.ask(ctx, others)
}

// monitor logs which members do not answer, and when there is no quorum.
type monitor struct {
	server     *Server
	led        time.Time // when there was last a leader
	leaderless bool      // the log says that there is none
	asked      time.Time // when the others were last asked
	silent     map[string]bool
}

func (m *monitor) check(ctx context.Context) {
	log := m.server.cfg.Log
	switch leader := m.server.etcd.Server.Leader(); {
	case leader != 0:
		if m.leaderless {
			log.Info().Stringer("after", time.Since(m.led).Round(time.Second)).Msg("etcd has a quorum again")
		}
		m.led, m.leaderless = time.Now(), false
	case time.Since(m.led) > leaderlessAfter && !m.leaderless:
		m.leaderless, m.asked = true, time.Time{} // log the missing members at once
		log.Warn().Msg("etcd has no quorum: nothing is decided, and nodes cannot prove that they are there, until more than half of the members are back: see docs/etcd.md")
	}
	if time.Since(m.asked) < logEvery {
		return
	}
	m.asked = time.Now()
	for _, a := range m.server.askPeers(ctx) {
		was := m.silent[a.from.URL]
		m.silent[a.from.URL] = a.err != nil
		switch {
		case ctx.Err() != nil:
			return
		case a.err != nil && !was:
			log.Warn().Str("member", a.from.Name).Str("url", a.from.URL).Err(a.err).Msg("a member of etcd does not answer: bring it back, or replace it: see docs/etcd.md")
		case a.err == nil && was:
			log.Info().Str("member", a.from.Name).Str("url", a.from.URL).Msg("a member of etcd answers again")
		}
	}
}

// establish promotes this member and announces its address, in a cluster that has a leader.
func (s *Server) establish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	es := s.etcd.Server
	self := es.Cluster().Member(es.MemberID())
	if self == nil {
		return // it is being removed; IsLearner would panic
	}
	if self.IsLearner {
		// etcd refuses until the member has caught up; the next check tries again.
		if _, err := es.PromoteMember(ctx, uint64(es.MemberID())); err == nil {
			s.cfg.Log.Info().Str("member", s.cfg.Member).Msg("joined: this member of etcd has all data and votes")
		}
		return
	}
	own, _ := s.cfg.own()
	select {
	case <-es.ReadyNotify():
		s.markReady.Do(func() { close(s.ready) })
	default:
		return
	}
	if slices.Equal(self.PeerURLs, []string{own.URL}) {
		return
	}
	moved := membership.Member{ID: self.ID, RaftAttributes: membership.RaftAttributes{PeerURLs: []string{own.URL}}}
	if _, err := es.UpdateMember(ctx, moved); err != nil {
		s.cfg.Log.Warn().Err(err).Str("url", own.URL).Msg("cannot tell the other members of etcd where this one is now")
		return
	}
	s.cfg.Log.Info().Strs("was", self.PeerURLs).Str("is", own.URL).Msg("this member of etcd is reached elsewhere now")
}

// plainURLError drops the address, which the caller names.
func plainURLError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// discardLog is for servers whose clients see each refusal themselves.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
