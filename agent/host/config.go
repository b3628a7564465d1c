package host

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// Config is what an agent needs to know.
type Config struct {
	Node cluster.NodeID
	// Bind is the IP address under which other nodes reach this one: its gossip and its workers.
	Bind       string
	GossipPort int    // 0 = any free one
	GossipKey  []byte // 16, 24 or 32 bytes; may be empty where Bind is a loopback address
	// TrainInterface is the network interface that workers meet on, where that is
	// another than Bind's; empty = they find one by themselves.
	TrainInterface string
	// PricePerHour is what the node costs while it runs something, in any currency; 0 = nothing more.
	PricePerHour float64
	// Identity is what this node shows to others, who reach it at APIPort (0 = any
	// free one); nil = agents of other machines cannot ask it for logs.
	Identity *trust.Identity
	APIPort  int
	// Ports are reserved for the rendezvous of worlds whose rank 0 is here.
	Ports record.Ports

	// Location is cluster.Node.Location. DeviceGroups are the groups of its devices,
	// instead of those that the driver knows; zero = none are told.
	Location     string
	DeviceGroups cluster.DeviceGroups

	DataDir string // what outlives the agent: its lease, its logs
	RunDir  string // one directory a run; a short path, as sockets lie in it. Empty = DataDir/run
	LockDir string // one file a device; the same for every agent of the machine
	// Strangers says how other people's processes on devices are treated; empty = devices.AutoStrangers.
	Strangers devices.Strangers
	// Processes bounds the processes and threads of a job on this node, for each device
	// that it has there; 0 = DefaultProcesses, negative = nothing does.
	Processes int
	// LauncherMemory is how much memory the launchers of warm starts may have here together,
	// in bytes; 0 = a share of the machine's, negative = nothing is prepared here.
	LauncherMemory int64
	// Containment is the kind that holds workers: run.Cgroup2, run.Cgroup1 or run.Weak;
	// empty takes the strongest that the node allows.
	Containment string
	Socket      string // of the API

	Etcd    store.Config // where etcd is, and who we are to it
	Cluster string       // the cluster's name; empty takes the one that etcd holds
	Devices nvml.Source
	Exe     string // the program whose `shim` and `internal digest` commands are run
	Version string

	LogBytes int64    // how much is kept of each rank's log in a generation; 0 = DefaultLogBytes
	KeepLogs KeepLogs // how long, and how much over all

	// Leave: when Run's context ends and no run is left here, the node leaves the
	// cluster at once. Otherwise its lease is kept, for a successor to adopt what runs.
	Leave bool
	// Ready is called once, when the node is in the cluster and answers; may be nil.
	Ready func()
	// Vitals is called every second or so with how the node does, and must not
	// block; may be nil.
	Vitals func(Vitals)
	Log    zerolog.Logger

	// TTL is how long the lease lives without a renewal; 0 = fence.TTL. The leader's
	// waits are made for that, so only tests choose another.
	TTL time.Duration
	// lookEvery is how often devices, their locks and the room for checkpoints are
	// looked at; 0 = defaultLookEvery. Only tests choose another.
	lookEvery time.Duration
	// probeEvery is how often a node looks whether what it failed of is over;
	// 0 = defaultProbeEvery. Only tests choose another.
	probeEvery time.Duration
}

// Vitals is how a node does, for those who watch it.
type Vitals struct {
	InCluster bool
	// Renewed is when the node's lease was renewed last; zero = not in this life.
	Renewed time.Time
	Workers int // processes that were started here and are not known to be gone
	Devices map[record.DeviceState]int
	// Gossip counts the nodes that gossip says are alive, dead or left; GossipScore
	// is 0 while it keeps up.
	Gossip      map[string]int
	GossipScore int
	Readings    []api.DeviceReading
}

// defaultProbeEvery is short because a job is to go on within ten seconds of it.
const defaultProbeEvery = 3 * time.Second

// defaultLookEvery is how old what `bellows nodes` shows of devices may be, and how
// late a lost one is noticed.
const defaultLookEvery = 10 * time.Second

// check fills in defaults and reports everything that is wrong at once.
func (c Config) check() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := cluster.CheckName(string(c.Node)); err != nil {
		fault("node: %w", err)
	}
	if ip := net.ParseIP(c.Bind); ip == nil || ip.IsUnspecified() {
		fault("bind %q: use the IP address under which other nodes reach this one", c.Bind)
	}
	if err := devices.CheckInterface(c.TrainInterface); err != nil {
		fault("network interface: %w", err)
	}
	if len(c.Etcd.Endpoints) == 0 {
		fault("etcd: no address: use host:port, as in 127.0.0.1:2379")
	}
	if c.Ports.First < 1 || c.Ports.Count < 1 || c.Ports.First+c.Ports.Count > 1<<16 {
		fault("ports %d+%d: use a range within 1 to 65535", c.Ports.First, c.Ports.Count)
	}
	if c.RunDir == "" {
		c.RunDir = filepath.Join(c.DataDir, runsDir)
	}
	for _, p := range []struct{ field, path string }{
		{"data dir", c.DataDir}, {"run dir", c.RunDir}, {"lock dir", c.LockDir}, {"socket", c.Socket}, {"exe", c.Exe},
	} {
		if !filepath.IsAbs(p.path) {
			fault("%s %q: use an absolute path", p.field, p.path)
		}
	}
	if err := CheckContainment(c.Containment); c.Containment != "" && err != nil {
		fault("%w", err)
	}
	if !slices.Contains([]devices.Strangers{"", devices.AutoStrangers, devices.RefuseStrangers, devices.IgnoreStrangers}, c.Strangers) {
		fault("foreign processes %q: use %s, %s or %s", c.Strangers, devices.AutoStrangers, devices.RefuseStrangers, devices.IgnoreStrangers)
	}
	if c.Devices == nil {
		fault("devices: no source")
	}
	c.Processes = max(0, cmp.Or(c.Processes, DefaultProcesses))
	if c.LauncherMemory == 0 {
		var m unix.Sysinfo_t
		if err := unix.Sysinfo(&m); err != nil {
			fault("launchers: how much memory the machine has: %w", err)
		}
		c.LauncherMemory = max(1, int64(m.Totalram*uint64(m.Unit)/launcherShare)) //nolint:gosec // no machine has 2^63 bytes
	}
	c.LogBytes = cmp.Or(c.LogBytes, DefaultLogBytes)
	c.KeepLogs.Age = cmp.Or(c.KeepLogs.Age, DefaultKeepLogsAge)
	c.KeepLogs.Bytes = cmp.Or(c.KeepLogs.Bytes, DefaultKeepLogsBytes)
	if c.LogBytes < 0 || c.KeepLogs.Age < 0 || c.KeepLogs.Bytes < 0 {
		fault("logs: %d bytes a rank, kept for %s and up to %d bytes: use positive values", c.LogBytes, c.KeepLogs.Age, c.KeepLogs.Bytes)
	}
	c.TTL = cmp.Or(c.TTL, fence.TTL)
	c.lookEvery = cmp.Or(c.lookEvery, defaultLookEvery)
	c.probeEvery = cmp.Or(c.probeEvery, defaultProbeEvery)
	return c, errors.Join(faults...)
}

// KeepLogs bounds what the ranks' logs take up on a node. Logs of a generation
// that runs here are always kept; each is bounded by itself (Config.LogBytes).
type KeepLogs struct {
	Age   time.Duration // since anything was written last; 0 = DefaultKeepLogs.Age
	Bytes int64         // over all logs of the node, the oldest go first; 0 = DefaultKeepLogs.Bytes
}

// What is kept if nothing else is asked for.
const (
	DefaultLogBytes      = 64 << 20
	DefaultKeepLogsAge   = 14 * 24 * time.Hour
	DefaultKeepLogsBytes = 10 << 30
)

// DefaultProcesses is many times what training takes, data loaders with all their
// threads included, and a small part of what a machine can have.
const DefaultProcesses = 4096

// launcherShare of a machine's memory is what its launchers have: those of PyTorch take 0.2 to 0.5 GiB
// each, and what the job itself may have is not theirs.
const launcherShare = 10

// CheckContainment reports a kind of containment that there is not.
func CheckContainment(kind string) error {
	if !slices.Contains([]string{run.Cgroup2, run.Cgroup1, run.Weak}, kind) {
		return fmt.Errorf("containment %q: use auto, %s, %s or %s", kind, run.Cgroup2, run.Cgroup1, run.Weak)
	}
	return nil
}

// margin and every keep fence's proportions where a test chooses a shorter lease.
func (c Config) margin() time.Duration { return c.TTL / (fence.TTL / fence.Margin) }
func (c Config) grace() time.Duration  { return c.TTL / (fence.TTL / fence.Grace) }
func (c Config) every() time.Duration  { return c.TTL / (fence.TTL / fence.RenewEvery) }

// logDir is where the logs of a generation's ranks are.
func (c Config) logDir() string { return filepath.Join(c.DataDir, logsDir) }
