package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cli/settings"
	"github.com/bellows-ml/bellows/cli/socketpath"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

// Defaults of `bellows dev`.
const (
	DefaultNodes    = 3
	DefaultDevices  = 4
	DefaultInterval = 2 * time.Second
	EtcdPort        = 2379
	maxNodes        = 64 // each is a process of some tens of megabytes
	maxDevices      = 64
)

// Options are the flags of `bellows dev`.
type Options struct {
	DataDir, Policy, Socket  string
	Nodes, Devices, EtcdPort int
	Interval                 time.Duration
	// DeviceGroups are the groups of each node's devices, and NodesPerRack puts so many nodes
	// into each of rack1, rack2, …; empty and 0 = none.
	DeviceGroups string
	NodesPerRack int
	DeviceModels []string // of the nodes' devices, one node after the other, and again; none = all alike
	PortGiven    bool     // an etcd port was asked for
}

func (o *Options) check() error {
	switch _, err := policy.ByName(o.Policy); {
	case o.Nodes < 1 || o.Nodes > maxNodes:
		return fault.Usage("--nodes %d: use 1 to %d", o.Nodes, maxNodes)
	case o.Devices < 1 || o.Devices > maxDevices:
		return fault.Usage("--devices-per-node %d: use 1 to %d", o.Devices, maxDevices)
	case o.Interval < settings.MinInterval:
		return fault.Usage("--interval %s: use %s or more", o.Interval, settings.MinInterval)
	case err != nil:
		return fault.Usage("--%w", err)
	case slices.ContainsFunc(o.DeviceModels, func(m string) bool { return strings.TrimSpace(m) == "" || len(m) > cluster.MaxModelBytes }):
		return fault.Usage("--device-models %q: name models, say a100,t4, each of at most %d bytes", strings.Join(o.DeviceModels, ","), cluster.MaxModelBytes)
	case o.NodesPerRack < 0:
		return fault.Usage("--nodes-per-rack %d: use 1 or more, or 0 for no racks", o.NodesPerRack)
	case o.EtcdPort < 0 || o.EtcdPort > 65535 || o.EtcdPort == 0 && o.PortGiven:
		return fault.Usage("--etcd-port %d: use 1 to 65535", o.EtcdPort)
	}
	groups, err := cluster.ParseDeviceGroups(o.DeviceGroups)
	if err != nil {
		return fault.Usage("--device-groups %w", err)
	}
	if problem := groups.Apply(make([]cluster.Device, o.Devices)); problem != "" {
		return fault.Usage("%s: name each of the %d devices of --devices-per-node once", problem, o.Devices)
	}
	return nil
}

// layout is where the parts of a dev cluster lie.
type layout struct {
	dir     string // absolute, without links: processes are recognised by it
	socket  string // of the first node's agent
	control string
	nodes   []node
}

type node struct {
	id     cluster.NodeID
	bind   string
	socket string
	ports  string
	rack   string // empty = in none
	model  string // of its devices; empty = as the agent calls them
}

func (o *Options) place() (layout, error) {
	dir := o.DataDir
	if dir == "" {
		state := os.Getenv("XDG_STATE_HOME")
		if state == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return layout{}, fmt.Errorf("find the state folder: %w: set --data-dir", err)
			}
			state = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(state, "bellows", "dev")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, fmt.Errorf("find data directory: %w", err)
	}
	if err = checkFolder(dir); err != nil {
		return layout{}, err
	}
	if err = os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return layout{}, fmt.Errorf("make data directory: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return layout{}, fmt.Errorf("find data directory: %w", err)
	}
	l := layout{dir: dir, socket: o.Socket}
	if l.socket == "" {
		l.socket = socketpath.Own()
		if err = socketpath.Trusted(filepath.Dir(l.socket)); err != nil {
			return layout{}, err
		}
	}
	if l.socket, err = filepath.Abs(l.socket); err != nil {
		return layout{}, fmt.Errorf("find socket: %w", err)
	}
	l.control = controlSocket(l.socket)
	for i := range o.Nodes {
		id := cluster.NodeID(fmt.Sprintf("n%d", i+1))
		n := node{id: id, bind: fmt.Sprintf("127.0.0.%d", i+2), socket: l.socket, ports: portRange(dir, i)}
		if len(o.DeviceModels) > 0 {
			n.model = o.DeviceModels[i%len(o.DeviceModels)]
		}
		if o.NodesPerRack > 0 {
			n.rack = fmt.Sprintf("rack%d", i/o.NodesPerRack+1)
		}
		if i > 0 {
			n.socket = beside(l.socket, string(id))
		}
		l.nodes = append(l.nodes, n)
	}
	return l, nil
}

// checkFolder refuses a folder with other things in it: afterwards they could not be told
// from those of the cluster.
func checkFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into data directory: %w", err)
	}
	for _, e := range entries {
		if slices.Contains([]string{"etcd", "log", "nodes"}, e.Name()) {
			return nil // of an earlier run
		}
	}
	return fault.Usage("--data-dir %s: other things are in it, such as %q: choose a folder of its own", dir, entries[0].Name())
}

// beside names a socket that lies beside another one.
func beside(socket, what string) string {
	return strings.TrimSuffix(socket, ".sock") + "-" + what + ".sock"
}

func controlSocket(socket string) string { return beside(socket, "dev") }

// The rendezvous ports of dev clusters: below those that the kernel gives out
// by itself, in ranges so that neither the nodes of one cluster nor, most
// likely, two clusters meet. (A taken port costs one attempt.)
const (
	firstPort  = 10000
	rangeSize  = 100
	portRanges = 220
)

func portRange(dir string, node int) string {
	hash := uint32(2166136261) // FNV-1a
	for i := range len(dir) {
		hash = (hash ^ uint32(dir[i])) * 16777619
	}
	slot := (int(hash%portRanges) + node) % portRanges
	return fmt.Sprintf("%d+%d", firstPort+slot*rangeSize, rangeSize)
}

func (l layout) node(id cluster.NodeID) (node, bool) {
	for _, n := range l.nodes {
		if n.id == id {
			return n, true
		}
	}
	return node{}, false
}

func (l layout) nodeDir(id cluster.NodeID) string {
	return filepath.Join(l.dir, "nodes", string(id))
}

// agentArgs is the command line of a node's agent.
func (l layout) agentArgs(n node, o Options, etcd string) []string {
	args := []string{
		"agent", "--config", "none", "--node", string(n.id), "--bind", n.bind, "--gossip-port", "0", "--socket", n.socket, "--etcd", etcd, "--cluster", clusterName,
		"--data-dir", l.nodeDir(n.id), "--run-dir", filepath.Join(runDir(l.dir), string(n.id)), "--lock-dir", filepath.Join(l.dir, "locks"),
		"--ports", n.ports, "--simulate-devices", fmt.Sprint(o.Devices), "--device-groups", o.DeviceGroups, "--location", n.rack,
	}
	if n.model != "" {
		args = append(args, "--simulate-model", n.model)
	}
	return args
}

// clusterName is the name of every dev cluster.
const clusterName = "dev"

// Run runs the cluster until it is interrupted.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	l, err := o.place()
	if err != nil {
		return err
	}
	lock, err := lockDev(l.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	s := newSupervisor(o, l)
	return s.run(ctx)
}
