package main

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

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

// Defaults of `bellows dev`.
const (
	devNodes     = 3
	devDevices   = 4
	devInterval  = 2 * time.Second
	devPolicy    = "greedy"
	devEtcdPort  = 2379
	maxDevNodes  = 64 // each is a process of some tens of megabytes
	maxDevDevice = 64
)

func devCommand() *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a small cluster with simulated devices on this machine",
		Long: `Runs etcd, a coordinator, and agents as processes of their own on 127.0.0.2,
127.0.0.3, …, each with simulated devices. What it needs lies in the data directory.
It is for trying out on a machine of your own: other users of the machine can reach
its etcd, and with it run programs as you.

Ctrl-C halts the jobs with a save, 10 s at most, and ends everything; the next start
on the same data directory goes on with them. A second Ctrl-C kills at once.`,
		Args: exactly(),
	}
	p := cmd.PersistentFlags()
	p.StringVar(&o.dataDir, "data-dir", "", "where everything lies (default ${XDG_STATE_HOME:-~/.local/state}/bellows/dev)")
	f := cmd.Flags()
	f.IntVar(&o.nodes, "nodes", devNodes, "number of nodes")
	f.IntVar(&o.devices, "devices-per-node", devDevices, "simulated devices of each node")
	f.DurationVar(&o.interval, "interval", devInterval, "time between decisions that may move running jobs")
	f.StringVar(&o.policy, "policy", devPolicy, "how devices are shared out: "+strings.Join(policy.Names(), ", "))
	f.IntVar(&o.etcdPort, "etcd-port", 0, fmt.Sprintf("port for etcd's clients (default %d, or a free one if that is taken)", devEtcdPort))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(cmd); err != nil {
			return err
		}
		o.socket = chosenSocket(cmd)
		layout, err := o.layout()
		if err != nil {
			return err
		}
		return runDev(cmd.Context(), o, layout)
	}
	cmd.AddCommand(
		devControlCommand("kill", "Take a node down: kill its agent, its shims and its workers, as a power cut would"),
		devControlCommand("start", "Bring a node up again that was taken down"),
	)
	return cmd
}

func devControlCommand(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NODE",
		Short: short,
		Args:  exactly("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			socket := chosenSocket(cmd)
			if socket == "" {
				socket = ownSocket()
			}
			text, err := askDev(cmd.Context(), controlSocket(socket), verb, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(os.Stderr, text)
			return nil
		},
	}
}

// devOptions are the flags of `bellows dev`.
type devOptions struct {
	dataDir, policy, socket  string
	nodes, devices, etcdPort int
	interval                 time.Duration
}

func (o *devOptions) check(cmd *cobra.Command) error {
	switch _, err := policy.ByName(o.policy); {
	case o.nodes < 1 || o.nodes > maxDevNodes:
		return fault.Usage("--nodes %d: use 1 to %d", o.nodes, maxDevNodes)
	case o.devices < 1 || o.devices > maxDevDevice:
		return fault.Usage("--devices-per-node %d: use 1 to %d", o.devices, maxDevDevice)
	case o.interval < minInterval:
		return fault.Usage("--interval %s: use %s or more", o.interval, minInterval)
	case err != nil:
		return fault.Usage("--%w", err)
	case o.etcdPort < 0 || o.etcdPort > 65535 || o.etcdPort == 0 && cmd.Flags().Changed("etcd-port"):
		return fault.Usage("--etcd-port %d: use 1 to 65535", o.etcdPort)
	}
	return nil
}

// devLayout is where the parts of a dev cluster lie.
type devLayout struct {
	dir     string // absolute, without links: processes are recognised by it
	socket  string // of the first node's agent
	control string
	nodes   []devNode
}

type devNode struct {
	id     cluster.NodeID
	bind   string
	socket string
	ports  string
}

func (o *devOptions) layout() (devLayout, error) {
	dir := o.dataDir
	if dir == "" {
		state := os.Getenv("XDG_STATE_HOME")
		if state == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return devLayout{}, fmt.Errorf("find the state folder: %w: set --data-dir", err)
			}
			state = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(state, "bellows", "dev")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return devLayout{}, fmt.Errorf("find data directory: %w", err)
	}
	if err = unmixed(dir); err != nil {
		return devLayout{}, err
	}
	if err = os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return devLayout{}, fmt.Errorf("make data directory: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return devLayout{}, fmt.Errorf("find data directory: %w", err)
	}
	l := devLayout{dir: dir, socket: o.socket}
	if l.socket == "" {
		l.socket = ownSocket()
		if err = trusted(filepath.Dir(l.socket)); err != nil {
			return devLayout{}, err
		}
	}
	if l.socket, err = filepath.Abs(l.socket); err != nil {
		return devLayout{}, fmt.Errorf("find socket: %w", err)
	}
	l.control = controlSocket(l.socket)
	for i := range o.nodes {
		id := cluster.NodeID(fmt.Sprintf("n%d", i+1))
		n := devNode{id: id, bind: fmt.Sprintf("127.0.0.%d", i+2), socket: l.socket, ports: portRange(dir, i)}
		if i > 0 {
			n.socket = besides(l.socket, string(id))
		}
		l.nodes = append(l.nodes, n)
	}
	return l, nil
}

// unmixed refuses a folder with other people's things in it, which nobody could
// tell from ours afterwards.
func unmixed(dir string) error {
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

// besides names a socket that lies beside another one.
func besides(socket, what string) string {
	return strings.TrimSuffix(socket, ".sock") + "-" + what + ".sock"
}

func controlSocket(socket string) string { return besides(socket, "dev") }

// The rendezvous ports of dev clusters: below those that the kernel gives out
// by itself, in ranges so that neither the nodes of one cluster nor, most
// likely, two clusters meet. (A taken port costs one attempt.)
const (
	firstDevPort  = 10000
	devPortRange  = 100
	devPortRanges = 220
)

func portRange(dir string, node int) string {
	hash := uint32(2166136261) // FNV-1a
	for i := range len(dir) {
		hash = (hash ^ uint32(dir[i])) * 16777619
	}
	slot := (int(hash%devPortRanges) + node) % devPortRanges
	return fmt.Sprintf("%d+%d", firstDevPort+slot*devPortRange, devPortRange)
}

func (l devLayout) node(id cluster.NodeID) (devNode, bool) {
	for _, n := range l.nodes {
		if n.id == id {
			return n, true
		}
	}
	return devNode{}, false
}

func (l devLayout) nodeDir(id cluster.NodeID) string {
	return filepath.Join(l.dir, "nodes", string(id))
}

// agentArgs is the command line of a node's agent.
func (l devLayout) agentArgs(n devNode, o devOptions, etcd string) []string {
	return []string{
		"agent", "--config", "none", "--node", string(n.id), "--bind", n.bind, "--gossip-port", "0", "--socket", n.socket, "--etcd", etcd, "--cluster", devCluster,
		"--data-dir", l.nodeDir(n.id), "--run-dir", filepath.Join(runDir(l.dir), string(n.id)), "--lock-dir", filepath.Join(l.dir, "locks"),
		"--ports", n.ports, "--simulate-devices", fmt.Sprint(o.devices),
	}
}

// devCluster is the name of every dev cluster.
const devCluster = "dev"

// runDev runs the cluster until it is interrupted.
func runDev(ctx context.Context, o devOptions, l devLayout) error {
	lock, err := lockDev(l.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	s := newSupervisor(o, l)
	return s.run(ctx)
}
