package membership

import (
	"fmt"
	"time"
)

const (
	// leaveTimeout bounds each of the two broadcasts of a graceful leave.
	leaveTimeout = time.Second
	// leaveSettle lets those who heard that we go pass it on, before the leave
	// itself overtakes it.
	leaveSettle = 4 * gossipInterval
)

// Leave tells the others that this node goes, so that they report Left instead
// of Failed, and stops taking part; Close is still needed. It takes less than
// three seconds. A peer that the word does not reach in time reports Failed.
func (g *Gossip) Leave() error {
	g.metaMu.Lock()
	defer g.metaMu.Unlock()
	if g.gone {
		return ErrClosed
	}
	g.gone = true
	g.end() // no rejoining while we go
	g.meta.Leaving = true
	if b, err := g.meta.encode(); err == nil && len(g.roster.list()) > 1 {
		g.roster.setLocal(b)
		if err := g.list.UpdateNode(leaveTimeout); err != nil {
			g.log.Debug().Err(err).Msg("announce the leave")
		}
		time.Sleep(leaveSettle)
	}
	if err := g.list.Leave(leaveTimeout); err != nil {
		return fmt.Errorf("leave the cluster: %w", err)
	}
	return nil
}

// Close stops taking part without a word, as a crash would; call Leave before
// it to go gracefully. It waits for the joins under way, up to five seconds,
// and for every goroutine of this package. After it no event is queued, and
// Events ends once it has been read. Closing twice is harmless.
func (g *Gossip) Close() error {
	g.end()
	g.loop.Wait()
	g.joinMu.Lock() // the last Join is over, and the next sees that life has ended
	defer g.joinMu.Unlock()
	g.metaMu.Lock()
	defer g.metaMu.Unlock()
	g.gone = true
	err := g.list.Shutdown()
	g.roster.queue.close()
	if err != nil {
		return fmt.Errorf("close gossip: %w", err)
	}
	return nil
}
