package settings

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/host"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/service"
	"github.com/bellows-ml/bellows/cli/socketpath"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

const (
	// The rendezvous ports of a node: below those that the kernel gives out by itself.
	defaultPorts = "29400+400"
	// simulatedMemory is what a simulated device says it has.
	simulatedMemory = 16 << 30
	localEtcd       = "127.0.0.1:2379"
)

// Agent are what the agent is told.
type Agent struct {
	node, bind, train, dataDir, run, lock, cluster, ports, keyFile, library, tlsDir string
	gossipPort, apiPort, simulate                                                   int
	facts                                                                           nodeFacts
	etcd                                                                            *etcdFlags
	hosting                                                                         *hosting
	scraping                                                                        *scraping
	flags                                                                           *flags.Set
}

// nodeFacts are what only its operators know of a node.
type nodeFacts struct {
	location, deviceGroups string
	simulated              string  // model of simulated devices
	price                  float64 // an hour
}

// NewAgent declares the settings of an agent as flags.
func NewAgent(f *flags.Set) *Agent {
	a := &Agent{flags: f}
	f.StringVar(&a.node, "node", "", "name of this node, unique in the cluster (default: the host name)")
	f.StringVar(&a.bind, "bind", "", "IP address under which the other nodes reach this one (default 127.0.0.1)")
	f.StringVar(&a.train, "train-interface", "", "network interface that workers meet on, if not the one with --bind: its address is MASTER_ADDR, its name NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME")
	f.IntVar(&a.gossipPort, "gossip-port", 7946, "port for gossip; 0 = any free one")
	f.StringVar(&a.keyFile, "gossip-key-file", "", "file with the cluster's gossip key: 16, 24 or 32 bytes, readable by its owner only")
	f.StringVar(&a.tlsDir, "tls-dir", "", "this node's certificates, as 'bellows tls issue' makes them; without, other machines cannot read logs here")
	f.IntVar(&a.apiPort, "api-port", 7947, "port on which other nodes ask this one, with --tls-dir; 0 = any free one")
	a.etcd = newEtcdFlags(f)
	f.StringVar(&a.cluster, "cluster", "", "the cluster's name (default: whichever lies in etcd)")
	f.StringVar(&a.dataDir, "data-dir", "", "what outlives the agent (default: /var/lib/bellows, or ~/.local/state/bellows/agent)")
	f.StringVar(&a.run, "run-dir", "", "one folder for each generation that runs here; a short path (default: run in the data directory)")
	f.StringVar(&a.lock, "lock-dir", "", "one lock for each device; the same for every agent of the machine (default /run/lock/bellows)")
	f.StringVar(&a.ports, "ports", defaultPorts, "rendezvous ports kept for workers, first+count")
	f.IntVar(&a.simulate, "simulate-devices", 0, "so many devices that exist in name only, instead of the machine's own")
	f.StringVar(&a.facts.simulated, "simulate-model", nvml.SimulatedModel, "the model that devices of --simulate-devices say they are")
	f.StringVar(&a.facts.location, "location", "", "where this node is in the network, from the outermost switch in, as in block1/rack7: jobs are kept within as little of it as they can be")
	f.StringVar(&a.facts.deviceGroups, "device-groups", "", "which devices are close to each other, by number, where the driver does not know: 0-1,2-3/4-7 are groups 0-1 and 2-3 on one NUMA node and 4-7 on another")
	f.Float64Var(&a.facts.price, "price-per-hour", 0, "what this node costs while it runs something, in the currency of all nodes, for policy jahani; 0 = nothing more")
	f.StringVar(&a.library, "nvml-library", "", "NVIDIA's management library (default: libnvidia-ml.so.1 where the system has it)")
	a.hosting = hostingFlags(f)
	a.scraping = scrapingFlag(f)
	return a
}

// Complete returns an agent that can run: what the settings say, completed by what the machine
// and its user say. socket is what --socket or its variable say, or empty.
func (a *Agent) Complete(log zerolog.Logger, socket string) (service.Agent, error) {
	cfg, err := a.config(log)
	if err != nil {
		return service.Agent{}, permanent(err)
	}
	cfg.Socket = socket
	if cfg, err = agentDefaults(cfg); err != nil {
		return service.Agent{}, err
	}
	if a.tlsDir != "" {
		if cfg.Identity, err = trust.Load(a.tlsDir, cfg.Node); err != nil {
			return service.Agent{}, permanent(err)
		}
		cfg.Etcd = trusting(cfg.Etcd, cfg.Identity)
	}
	cfg.Devices = nvml.NewProbe(cfg.Exe, "internal", "nvml", "--library", a.library)
	if a.simulate > 0 {
		cfg.Devices = nvml.Simulated(cfg.Node, a.simulate, a.facts.simulated, simulatedMemory)
	}
	return service.Agent{Host: cfg, Metrics: a.scraping.address}, nil
}

// config is what the flags say, with the files read, before anything of the machine is looked at.
func (a *Agent) config(log zerolog.Logger) (host.Config, error) {
	cfg := host.Config{
		Node: cluster.NodeID(a.node), Bind: a.bind, TrainInterface: a.train, GossipPort: a.gossipPort, APIPort: a.apiPort, Cluster: a.cluster,
		DataDir: a.dataDir, RunDir: a.run, LockDir: a.lock,
		Version: service.Version(), Leave: true, Log: log,
	}
	var bad fault.List
	if a.node != "" {
		if err := cluster.CheckName(a.node); err != nil {
			bad.Add(fault.Usage("--node %s", strings.TrimPrefix(err.Error(), "name ")))
		}
	}
	bad.Add(a.scraping.check())
	bad.Add(a.hosting.apply(&cfg))
	var err error
	cfg.Etcd, err = a.etcd.config()
	bad.Add(err)
	if cfg.Ports, err = ParsePorts(a.ports); err != nil {
		bad.Add(fault.Usage("--ports %w", err))
	}
	if a.flags.Changed("simulate-devices") && a.simulate < 1 {
		bad.Add(fault.Usage("--simulate-devices %d: use 1 or more, or leave it out to use the machine's own", a.simulate))
	}
	if m := a.facts.simulated; a.flags.Changed("simulate-model") && (a.simulate < 1 || strings.TrimSpace(m) == "" || len(m) > cluster.MaxModelBytes) {
		bad.Add(fault.Usage("--simulate-model %.80q: give a name of 1 to %d bytes, with --simulate-devices", m, cluster.MaxModelBytes))
	}
	bad.Add(a.topology(&cfg))
	if err = cluster.CheckPrice(a.facts.price); err != nil {
		bad.Add(fault.Usage("--price-per-hour %w", err))
	}
	cfg.PricePerHour = a.facts.price
	if err = devices.CheckInterface(a.train); err != nil {
		bad.Add(fault.Usage("--train-interface %w", err))
	}
	if ip := net.ParseIP(cfg.Bind); cfg.Bind != "" && (ip == nil || ip.IsUnspecified()) {
		bad.Add(fault.Usage("--bind %q: use the IP address under which other nodes reach this one", cfg.Bind))
	} else if ip != nil && !ip.IsLoopback() && a.keyFile == "" {
		bad.Add(fault.Usage("--bind %s: other machines can reach that, so the cluster needs a gossip key: "+
			"head -c 32 /dev/urandom > FILE once, and --gossip-key-file with a copy of it on every node", cfg.Bind))
	}
	for _, p := range []struct {
		flag string
		port int
	}{{"gossip-port", a.gossipPort}, {"api-port", a.apiPort}} {
		if p.port < 0 || p.port > 65535 {
			bad.Add(fault.Usage("--%s %d: use a port, or 0 for any free one", p.flag, p.port))
		}
	}
	if cfg.GossipKey, err = readKey(a.keyFile); err != nil {
		bad.Add(err)
	}
	return cfg, bad.Err()
}

// topology is what the flags say of where the node and its devices are.
func (a *Agent) topology(cfg *host.Config) error {
	var bad fault.List
	var err error
	cfg.Location = a.facts.location
	if err = cluster.CheckLocation(a.facts.location); err != nil {
		bad.Add(fault.Usage("--location: %w", err))
	}
	if cfg.DeviceGroups, err = cluster.ParseDeviceGroups(a.facts.deviceGroups); err != nil {
		bad.Add(fault.Usage("--device-groups %w", err))
	} else if a.simulate > 0 {
		if problem := cfg.DeviceGroups.Apply(make([]cluster.Device, a.simulate)); problem != "" {
			bad.Add(fault.Usage("%s: name each of the %d devices of --simulate-devices once", problem, a.simulate))
		}
	}
	return bad.Err()
}

// agentDefaults fills in what depends on the machine and the user.
func agentDefaults(cfg host.Config) (host.Config, error) {
	var err error
	if cfg.Exe, err = program(); err != nil {
		return cfg, fmt.Errorf("find this program: %w", err)
	}
	if cfg.Node == "" {
		name, hostErr := os.Hostname()
		if hostErr != nil {
			return cfg, fmt.Errorf("find host name: %w: set --node", hostErr)
		}
		cfg.Node = cluster.NodeID(name)
	}
	if cfg.Bind == "" {
		cfg.Bind = "127.0.0.1"
	}
	root := os.Getuid() == 0
	if cfg.Socket == "" {
		cfg.Socket = socketpath.Own()
		if root {
			cfg.Socket = socketpath.System
		} else if err = socketpath.Trusted(filepath.Dir(cfg.Socket)); err != nil {
			return cfg, err
		}
	}
	if cfg.DataDir == "" {
		cfg.DataDir = "/var/lib/bellows"
		if !root {
			home, homeErr := os.UserHomeDir()
			if homeErr != nil {
				return cfg, fmt.Errorf("find home: %w: set --data-dir", homeErr)
			}
			cfg.DataDir = filepath.Join(home, ".local", "state", "bellows", "agent")
		}
	}
	if cfg.LockDir == "" {
		cfg.LockDir = "/run/lock/bellows"
	}
	for _, path := range []*string{&cfg.DataDir, &cfg.RunDir, &cfg.LockDir, &cfg.Socket} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return cfg, fmt.Errorf("find %s: %w", *path, err)
		}
	}
	return cfg, nil
}

// ParsePorts reads first+count.
func ParsePorts(text string) (record.Ports, error) {
	first, number, _ := strings.Cut(text, "+")
	a, err1 := strconv.Atoi(first)
	n, err2 := strconv.Atoi(number)
	if err1 != nil || err2 != nil || a < 1 || n < 1 || a+n > 1<<16 {
		return record.Ports{}, fmt.Errorf("%q: use first+count within 1 to 65535, as in %s", text, defaultPorts)
	}
	return record.Ports{First: a, Count: n}, nil
}

func readKey(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	key, err := readSecret("--gossip-key-file", path)
	if err != nil {
		return nil, err
	}
	if n := len(key); n != 16 && n != 24 && n != 32 {
		return nil, fmt.Errorf("--gossip-key-file: gossip key in %s has %d bytes: use 16, 24 or 32 random bytes, as of head -c 32 /dev/urandom", path, n)
	}
	return key, nil
}
