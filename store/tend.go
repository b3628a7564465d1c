package store

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
)

const (
	// tendEvery is how often a member looks at itself.
	tendEvery = time.Second
	// orphanedAfter is how long a member may be without a leader before people are
	// told: several elections.
	orphanedAfter = 5 * time.Second
	// changeTimeout bounds one change of the membership.
	changeTimeout = 5 * time.Second
)

// tend looks after one member of several until ctx ends: it makes it one that
// votes once it has caught up, tells the others a new address, and says what is
// missing. Each of it is tried again with the next look.
func (s *Server) tend(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	w := watchman{server: s, led: time.Now(), silent: map[string]bool{}}
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
		case err := <-s.words.said:
			if isFull(err) {
				err = fmt.Errorf("%w: %s", err, fullRemedy)
			}
			s.why = fmt.Errorf("etcd cannot go on: %w", err)
			close(s.ended)
			return
		case <-tick.C:
		}
		if len(s.cfg.Members) == 0 {
			continue
		}
		if s.etcd.Server.Leader() != 0 {
			s.settle(ctx)
		}
		w.look(ctx)
	}
}

// fail notes why the server has ended.
func (s *Server) fail(ctx context.Context, err error) {
	if err == nil {
		err = errors.New("etcd has ended by itself: its last messages say why")
	}
	if s.isRemoved(ctx) {
		err = unfit("this member, %s, was removed from its cluster: to let the server join again, move %s away, "+
			"run elsewhere: bellows etcd add %s URL, and start it", s.cfg.Member, s.cfg.DataDir, s.cfg.Member)
	}
	s.why = err
	close(s.ended)
}

// isRemoved reports whether other members have a cluster without this one.
func (s *Server) isRemoved(ctx context.Context) bool {
	for _, a := range s.askPeers(ctx) {
		if len(a.members) > 0 {
			return !slices.ContainsFunc(a.members, func(m peerMember) bool { return m.ID == uint64(s.etcd.Server.MemberID()) })
		}
	}
	return false
}

// askPeers asks the other members: those that its data know of, or, as long as
// there are none, its settings.
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

// watchman tells people which members are missing, and when nothing can be written for it.
type watchman struct {
	server   *Server
	led      time.Time // when there was a leader last
	orphaned bool      // people know that there is none
	asked    time.Time // when the others were asked last
	silent   map[string]bool
}

func (w *watchman) look(ctx context.Context) {
	log := w.server.cfg.Log
	switch leader := w.server.etcd.Server.Leader(); {
	case leader != 0:
		if w.orphaned {
			log.Info().Stringer("after", time.Since(w.led).Round(time.Second)).Msg("etcd has a quorum again")
		}
		w.led, w.orphaned = time.Now(), false
	case time.Since(w.led) > orphanedAfter && !w.orphaned:
		w.orphaned, w.asked = true, time.Time{} // say at once whom it lacks
		log.Warn().Msg("etcd has no quorum: nothing is decided, and nodes cannot prove that they are there, until more than half of the members are back: see docs/etcd.md")
	}
	if time.Since(w.asked) < sayEvery {
		return
	}
	w.asked = time.Now()
	for _, a := range w.server.askPeers(ctx) {
		was := w.silent[a.from.URL]
		w.silent[a.from.URL] = a.err != nil
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

// settle makes this member what its settings say, within a cluster that has a leader.
func (s *Server) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	es := s.etcd.Server
	self := es.Cluster().Member(es.MemberID())
	if self == nil {
		return // it is being removed; IsLearner would panic
	}
	if self.IsLearner {
		// Until it has caught up it is refused, for which the next look is early enough.
		if _, err := es.PromoteMember(ctx, uint64(es.MemberID())); err == nil {
			s.cfg.Log.Info().Str("member", s.cfg.Member).Msg("joined: this member of etcd has all data and votes")
		}
		return
	}
	own, _ := s.cfg.own()
	select {
	case <-es.ReadyNotify():
		s.settled.Do(func() { close(s.ready) })
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

// plainURLError leaves out the address, which the caller names.
func plainURLError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// discardLog is for servers whose refusals are seen by those who were refused.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
