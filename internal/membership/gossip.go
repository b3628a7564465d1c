package membership

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/cluster"
)

// Sentinels, for errors.Is.
var (
	// ErrClosed is returned after Leave or Close.
	ErrClosed = errors.New("membership is closed")
	// ErrNameTaken is returned by Join when a live node elsewhere has this
	// node's name. One that has just died there gives it up within seconds.
	ErrNameTaken = errors.New("node name is taken")
)

// Config is what a node needs to take part.
type Config struct {
	Node cluster.NodeID
	// Bind is the ip:port to listen on, TCP and UDP, and to be known by; port 0
	// takes a free one. 0.0.0.0 listens everywhere and is known by the
	// machine's first private address.
	Bind string
	// Key encrypts and authenticates all gossip, with AES-128, -192 or -256 by
	// its length. Without one, anybody who can send a packet is a member.
	Key []byte
	// AllowPlain permits an empty Key: for one machine, or a demo.
	AllowPlain bool
	Meta       Meta
	// Known returns addresses at which peers may be found, as read from etcd;
	// those not among the members are tried now and then, so that a cluster
	// grows together again after a partition. It must return at once. Nil for
	// none.
	Known func() []string
	Log   zerolog.Logger // the zero Logger is silent
}

// Gossip is one node's part in the membership. Its methods may be called from
// any goroutine. Close must be called.
type Gossip struct {
	list   *memberlist.Memberlist
	roster *roster
	log    zerolog.Logger
	addr   string

	life   context.Context // ends with Close
	end    context.CancelFunc
	loop   sync.WaitGroup
	joinMu sync.Mutex // one Join at a time, and Close after the last

	metaMu sync.Mutex
	meta   wireMeta
	gone   bool // Leave or Close was called
}

// Start listens and begins to take part; until Join or Known leads to a peer,
// the node is alone.
func Start(cfg Config) (*Gossip, error) {
	return start(cfg, tuning{rejoin: rejoinDelay})
}

// tuning is what tests change.
type tuning struct {
	rejoin     func(alone bool) time.Duration
	memberlist func(*memberlist.Config)
}

func start(cfg Config, tune tuning) (*Gossip, error) {
	bind, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	meta := cfg.Meta.wire()
	local, err := meta.encode()
	if err != nil {
		return nil, err
	}
	g := &Gossip{
		roster: newRoster(cfg.Node, local, newQueue(queueLen)),
		log:    cfg.Log,
		meta:   meta,
	}
	conf := profile(cfg, bind, g.roster)
	if tune.memberlist != nil {
		tune.memberlist(conf)
	}
	if conf.Transport == nil {
		if conf.Transport, err = newTransport(conf, cfg.Log); err != nil {
			return nil, fmt.Errorf("start gossip on %s: %w", cfg.Bind, err)
		}
	}
	if g.list, err = memberlist.Create(conf); err != nil {
		// memberlist shuts its transport down in some of these cases only.
		return nil, errors.Join(fmt.Errorf("start gossip on %s: %w", cfg.Bind, err), conf.Transport.Shutdown())
	}
	g.addr = g.roster.member(cfg.Node).Addr
	g.life, g.end = context.WithCancel(context.Background())
	if cfg.Known != nil {
		g.loop.Go(func() { g.rejoin(cfg.Known, tune.rejoin) })
	}
	return g, nil
}

// validate reports all faults at once.
func (c Config) validate() (netip.AddrPort, error) {
	var faults []error
	if err := cluster.CheckName(string(c.Node)); err != nil {
		faults = append(faults, fmt.Errorf("node: %w", err))
	}
	bind, err := netip.ParseAddrPort(c.Bind)
	switch {
	case err != nil:
		faults = append(faults, fmt.Errorf("bind %q: write it as ip:port", c.Bind))
	case bind.Addr().Is6() && bind.Addr().IsUnspecified():
		faults = append(faults, fmt.Errorf("bind %q: peers need one address to know this node by; name it", c.Bind))
	}
	switch len(c.Key) {
	case 16, 24, 32:
	case 0:
		if !c.AllowPlain {
			faults = append(faults, errors.New("key is missing: give one of 32 bytes, or allow plain gossip on a single machine"))
		}
	default:
		faults = append(faults, fmt.Errorf("key has %d bytes: use 32 (or 16 or 24)", len(c.Key)))
	}
	return bind, errors.Join(faults...)
}

// The detector's timing. It sees a dead or a frozen peer in one to two seconds
// on a healthy network, at the price of a few packets a second from each node;
// it is tuned to be fast rather than sure, because nothing is decided on its
// word alone.
const (
	probeInterval  = 250 * time.Millisecond
	probeTimeout   = 100 * time.Millisecond
	suspicionMult  = 2
	gossipInterval = 50 * time.Millisecond
	// streamTimeout bounds a dial, and again the exchange after it: a join that
	// goes nowhere takes this long twice, and Close may wait for one.
	streamTimeout = 2 * time.Second
	// reclaimAfter is how long a dead node's name stays with its old address.
	// memberlist takes 0 for "for ever"; a node that comes back with a new
	// address has waited for the detector already.
	reclaimAfter = time.Millisecond
)

func profile(cfg Config, bind netip.AddrPort, r *roster) *memberlist.Config {
	conf := memberlist.DefaultLANConfig()
	conf.Name = string(cfg.Node)
	conf.BindAddr, conf.BindPort = bind.Addr().String(), int(bind.Port())
	conf.SecretKey = cfg.Key
	conf.ProbeInterval, conf.ProbeTimeout = probeInterval, probeTimeout
	conf.SuspicionMult = suspicionMult
	conf.GossipInterval = gossipInterval
	conf.TCPTimeout = streamTimeout
	conf.DeadNodeReclaimTime = reclaimAfter
	conf.Logger = newLogger(cfg.Log)
	// To compress messages of some hundred bytes costs more than to send them: each takes a table of 64 KiB, and all of
	// them took a sixth of an idle agent's processor time.
	conf.EnableCompression = false
	conf.Delegate, conf.Events, conf.Conflict, conf.Merge, conf.Alive = r, r, r, r, r
	return conf
}

// Addr returns the ip:port by which others know this node.
func (g *Gossip) Addr() string { return g.addr }

// Events returns the stream of changes, to be read by one goroutine. A reader
// that falls behind by more than 255 events gets Missed in place of what it
// missed. The stream ends after Close.
func (g *Gossip) Events() <-chan Event { return g.roster.queue.ch }

// Members returns all nodes believed to be there, this one included until it
// leaves, sorted by node.
func (g *Gossip) Members() []Member { return g.roster.list() }

// UpdateMeta changes what the node tells about itself. It returns at once; the
// others know within a few gossip rounds. Metadata that did not change costs
// nothing.
func (g *Gossip) UpdateMeta(m Meta) error {
	g.metaMu.Lock()
	defer g.metaMu.Unlock()
	if g.gone {
		return ErrClosed
	}
	meta := m.wire()
	b, err := meta.encode()
	if err != nil {
		return err
	}
	g.meta = meta
	if g.roster.setLocal(b) {
		// The only error is that the update had not been sent within the
		// timeout, and we do not wait for that.
		_ = g.list.UpdateNode(time.Nanosecond)
	}
	return nil
}
