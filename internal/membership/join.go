package membership

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	// joinWidth is how many addresses are tried at once. After a partition most
	// of those tried may be dead machines, each of which takes streamTimeout.
	joinWidth = 8
	// A cluster torn apart grows together within one delay of any one node; the
	// spread keeps nodes from asking all at once.
	rejoinSoonest = 15 * time.Second
	rejoinLatest  = 30 * time.Second
	// rejoinAlone is the delay while no peer has been found: the attempts disturb no
	// other node then.
	rejoinAlone = 2 * time.Second
)

// Join contacts peers at the given host:port addresses and exchanges all that
// is known with each. It returns how many it reached, and an error when that
// is none of them, or when the cluster has a node of this name already
// (ErrNameTaken): then this node is not a member.
func (g *Gossip) Join(ctx context.Context, addrs []string) (reached int, err error) {
	g.joinMu.Lock()
	defer g.joinMu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.life, cancel)()

	g.roster.takeTaken()
	errs := make([]error, len(addrs))
	slots := make(chan struct{}, joinWidth)
	var tries sync.WaitGroup
	for i, addr := range addrs {
		slots <- struct{}{}
		tries.Go(func() {
			errs[i] = g.joinOne(ctx, addr)
			<-slots
		})
	}
	tries.Wait()

	for _, err := range errs {
		if err == nil {
			reached++
		}
	}
	if other := g.roster.takeTaken(); other != "" {
		return reached, fmt.Errorf("%w: %s lives at %s", ErrNameTaken, g.roster.self, other)
	}
	if reached == 0 {
		err = errors.Join(errs...)
	}
	return reached, err
}

func (g *Gossip) joinOne(ctx context.Context, addr string) error {
	if g.life.Err() != nil {
		return ErrClosed
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("join %q: write it as host:port", addr)
	}
	if _, err = strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("join %q: the port is not a number", addr)
	}
	// Names are resolved here and not by memberlist, whose look-up cannot be
	// cancelled.
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("join %s: %w", addr, err)
	}
	for _, ip := range ips {
		if err = ctx.Err(); err != nil {
			break
		}
		if _, err = g.list.Join([]string{net.JoinHostPort(ip.Unmap().String(), port)}); err == nil {
			return nil
		}
	}
	// memberlist wraps each error in a list of one, to be printed on two lines.
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return fmt.Errorf("join %s: %w", addr, err)
}

// rejoin joins what is known and missing, for life.
func (g *Gossip) rejoin(known func() []string, delay func(alone bool) time.Duration) {
	for {
		if addrs := g.missing(known()); len(addrs) > 0 {
			if n, err := g.Join(g.life, addrs); err != nil {
				g.log.Debug().Err(err).Int("reached", n).Msg("rejoin")
			}
		}
		timer := time.NewTimer(delay(len(g.Members()) <= 1))
		select {
		case <-g.life.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func rejoinDelay(alone bool) time.Duration {
	if alone {
		return rejoinAlone
	}
	return rejoinSoonest + rand.N(rejoinLatest-rejoinSoonest)
}

// missing returns the addresses at which no member is, in random order: when
// many of them are dead, different nodes find the live ones first.
func (g *Gossip) missing(addrs []string) []string {
	present := map[string]bool{}
	for _, m := range g.Members() {
		present[m.Addr] = true
	}
	var out []string
	for _, a := range addrs {
		if !present[a] {
			present[a] = true
			out = append(out, a)
		}
	}
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Health says how badly this node itself keeps up with gossip: 0 is well; the
// more of its probes go unanswered in time, the higher, and the longer it waits
// before it suspects others.
func (g *Gossip) Health() int { return g.list.GetHealthScore() }
