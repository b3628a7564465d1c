package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/api/serve"
	"github.com/bellows-ml/bellows/internal/membership"
	"github.com/bellows-ml/bellows/record"
)

// outside is where others reach this node: gossip, and the sockets of the API.
type outside struct {
	census *census // what the API reads of the records
	gossip *gossip
	alive  record.Alive // what the node says about itself
	people net.Listener // on this machine
	nodes  net.Listener // nil: other nodes cannot ask this one
}

// openOutside leaves nothing open if it fails.
func openOutside(cfg Config, c *census) (_ *outside, err error) {
	o := &outside{census: c, alive: alive(cfg)}
	if o.alive.BootID == proc.UnknownBoot {
		// Two starts of the machine would look like one, and processes of the first like those of the second.
		return nil, errors.New("the kernel does not say which start of the machine this is: mount /proc, with /proc/sys/kernel/random/boot_id")
	}
	if o.nodes, err = listenToNodes(cfg); err != nil {
		return nil, err
	}
	if o.nodes != nil {
		o.alive.API = "tls:" + o.nodes.Addr().String()
	}
	meta := membership.Meta{Incarnation: o.alive.Incarnation, API: o.alive.API}
	if o.gossip, err = startGossip(cfg, meta, c); err != nil {
		return nil, errors.Join(err, closeListener(o.nodes))
	}
	o.alive.Gossip = o.gossip.Addr()
	if o.people, err = serve.Listen(cfg.Socket); err != nil {
		return nil, errors.Join(err, o.gossip.Close(), closeListener(o.nodes))
	}
	return o, nil
}

func closeListener(ln net.Listener) error {
	if ln == nil {
		return nil
	}
	return ln.Close()
}

// listenToNodes opens the port on which other nodes ask this one; nil where it
// has nothing to show them who it is.
func listenToNodes(cfg Config) (net.Listener, error) {
	if cfg.Identity == nil {
		if !net.ParseIP(cfg.Bind).IsLoopback() {
			cfg.Log.Warn().Msg("no --tls-dir: the logs of this node's workers can be read on this node only")
		}
		return nil, nil
	}
	address := net.JoinHostPort(cfg.Bind, strconv.Itoa(cfg.APIPort))
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen to other nodes: %w: choose another --bind or --api-port", err)
	}
	return ln, nil
}

// alive is what a node says about itself.
func alive(cfg Config) record.Alive {
	return record.Alive{
		Incarnation: fmt.Sprintf("%d-%s", os.Getpid(), api.NewRequestID()[:8]),
		BootID:      proc.BootID(), Addr: cfg.Bind, API: "unix:" + cfg.Socket, Version: cfg.Version, Ports: cfg.Ports,
		Limits: true, NoNewPrivs: true, Nonces: true, Prepares: cfg.LauncherMemory > 0,
	}
}
