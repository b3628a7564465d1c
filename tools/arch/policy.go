package arch

import (
	"slices"
	"strings"
)

// A Row is one package's place in the house: a statement of policy, not a
// description of what the code happens to do today.
type Row struct {
	Path    string // relative to the module root
	Imports string // packages of this module it may import, space-separated; test files are free
	Grade   Grade  // what it may touch
	Why     string // the one sentence that says why it is a package
}

// Grade says how far a package may reach. The grades are ordered: each one
// allows all that the one before it allows.
type Grade int

const (
	// Pure packages decide: no I/O, no clock, no concurrency, no package-level
	// state, no map order in an answer. They can be simulated and replayed.
	Pure Grade = iota
	// Virtual packages may use goroutines and locks, but touch neither the
	// outside world nor its clock.
	Virtual
	// Sealed packages may wait and read the clock, but reach files and
	// networks only through an interface handed to them.
	Sealed
	// Shell packages may do anything; the less they decide the better.
	Shell
)

// The layers. A layer's packages may import those of the layers above it as
// far as their own row allows.
const (
	layer1 = "record record/reason rendezvous checkpoint checkpoint/layout agent/fence agent/run agent " +
		"allocator allocator/goodput allocator/forecast allocator/solve allocator/admit allocator/capacity allocator/lookahead allocator/split allocator/place allocator/policy"
	layer2 = "coordinator/speed coordinator/promise coordinator"
	layer3 = "agent/logprogress agent/ranklog agent/proc agent/rundir agent/owner agent/contain agent/devicelock agent/sweep agent/warm agent/precheck agent/agenttest internal/userdb internal/fault internal/units internal/yamltext cli/output internal/durable internal/gate sdk internal/logging internal/trust nvml internal/systemd internal/metrics internal/membership store store/server store/etcdtest store/storetest api api/serve agent/shim " +
		"agent/child checkpoint/owned checkpoint/dirblob checkpoint/blobtest"
	layer4 = "coordinator/lead agent/host"
	// front is what the command line is made of, apart from the commands.
	front = "cli/flags cli/jobspec cli/socketpath cli/ask cli/render cli/follow cli/profile cli/verify cli/service cli/settings cli/dev cli/command"
	// laboratory is all below lab. It uses production's packages; of all others, only
	// cmd/bellows uses it (CheckLaboratory).
	laboratory = planning + " lab/rules/elasticflow lab/rules/muri lab/rules/pollux lab/rules/saxena lab/rules/wei lab/rules lab/milp lab/referee " +
		"lab/reproduce lab/bench lab/fidelity"
	// planning is the part of it that users have: bellows simulate and bellows plan.
	planning = "lab/machine lab/trace lab/sim lab/plan lab/file lab/batch lab/plot lab/simulate"

	// below4 is what the two big shells tie together.
	below4 = "cluster " + layer1 + " " + layer2 + " " + layer3
)

// Rows is the table. Each row imports only from rows above it, so that reading
// down is reading from the vocabulary to the binary.
func Rows() []Row { return slices.Concat(production(), node(), beyond()) }

// production is what runs on a server, in the coordinator and in the agent, but for the parts of node.
func production() []Row {
	return []Row{
		{"cluster", "", Pure, "the vocabulary every package speaks"},

		{"record/reason", "", Pure, "why something is so: codes and arguments, and their text"},
		{"record", "cluster record/reason", Pure, "what is in etcd, and an in-memory etcd to test against"},
		{"record/recordtest", "cluster record record/reason", Pure, "records made wrong, for the tests of all that read them"},
		{"rendezvous", "cluster", Pure, "forming a world: who, by when, which rank"},
		{"checkpoint/layout", "cluster", Pure, "the names of checkpoints' folders and files"},
		{"checkpoint", "cluster record checkpoint/layout", Sealed, "all-or-nothing saved state; I/O only through Blobs"},
		{"allocator", "cluster", Pure, "the question and the checked answer of allocation"},
		{"allocator/goodput", "cluster", Pure, "speed models, fitted online"},
		{"allocator/forecast", "cluster record allocator allocator/goodput", Pure, "what is measured and stated of a job, as inputs of decisions"},
		{"allocator/solve", "cluster", Pure, "solvers with certified bounds"},
		{"allocator/admit", "cluster allocator allocator/goodput", Pure, "deadlines that can be kept, and the plan that keeps them"},
		{"allocator/capacity", "", Pure, "which nodes run, and the split of their devices, at the least cost"},
		{"allocator/place", "cluster", Pure, "counts to devices on a topology"},
		{"allocator/split", "", Pure, "devices to jobs for the highest sum of values: exact, and by concave hulls"},
		{"allocator/policy", "cluster allocator allocator/capacity allocator/goodput allocator/solve allocator/admit allocator/split allocator/place", Pure, "one policy a file"},
		{"allocator/lookahead", "cluster allocator allocator/goodput allocator/place", Pure, "when waiting jobs will start, by the policy run forward"},
		{"agent/fence", "cluster", Pure, "the deadlines that keep two generations apart"},
		{"agent/run", "cluster record record/reason agent/fence", Pure, "what is done about one run on a node: start, halt, kill, end"},
		{"agent", "cluster record record/reason agent/fence agent/run", Pure, "what one node should do next"},

		{"coordinator/speed", "cluster record allocator allocator/forecast allocator/goodput", Pure, "how fast jobs train: what was measured, and what follows"},
		{"internal/units", "", Pure, "numbers with units, as people write and read them"},
		{"coordinator/promise", "cluster record record/reason allocator allocator/goodput allocator/admit agent/fence internal/units", Pure, "which deadlines are promised, and the plan that keeps them"},
		{"coordinator", "cluster record record/reason allocator allocator/forecast allocator/goodput allocator/lookahead allocator/place rendezvous agent/fence internal/units coordinator/speed coordinator/promise", Pure, "the life of every job"},

		{"cli/flags", "", Shell, "what flags are declared with"},
		{"internal/fault", "", Shell, "what is wrong with what a person gave the command line"},
		{"internal/pycommand", "record", Pure, "command lines that run a Python script"},
		{"internal/yamltext", "", Sealed, "YAML with the lines of its values; the one owner of the format"},
		{"cli/output", "cluster internal/yamltext", Shell, "tables, terminals, JSON and YAML"},
		{"internal/userdb", "", Shell, "who a user is, in bounded time"},
		{"internal/durable", "", Shell, "writes files that survive a power cut"},
		{"internal/gate", "", Shell, "how many connections may be open at a listener"},
		{"sdk", "", Sealed, "the Python module, embedded"},
		{"internal/logging", "", Sealed, "log lines that never make their writer wait"},
		{"internal/trust", "cluster internal/durable internal/userdb", Shell, "who a node is: certificates and TLS between agents"},
		{"nvml", "cluster", Shell, "devices and their health"},
		{"internal/membership", "cluster internal/gate", Shell, "who is there, by gossip: a hint, never authority"},
		{"store", "cluster record", Shell, "executes record.Txn on etcd"},
		{"store/server", "record store internal/durable", Shell, "runs an etcd and administers it"},
		{"store/etcdtest", "record store store/server", Shell, "an etcd for a test, and clients of it"},
		{"store/storetest", "record", Shell, "one suite for etcd and for the in-memory etcd"},
		{"agent/logprogress", "cluster record", Pure, "how far a script is, by what it prints"},
		{"agent/ranklog", "", Shell, "what ranks print: names, rotation and times of its files"},
		{"api", "cluster record/reason agent/ranklog", Shell, "how people and agents talk to an agent: the wire types and the client"},
		{"api/serve", "cluster record record/reason allocator allocator/goodput allocator/forecast allocator/lookahead allocator/policy coordinator agent/ranklog api internal/userdb internal/gate internal/trust", Shell, "the agent's server"},
		{"internal/metrics", "cluster record internal/gate", Shell, "what Prometheus reads of an agent or a coordinator"},
		{"internal/systemd", "", Shell, "what services and their manager say to each other"},
		{"agent/child", "", Shell, "runs a part of this program as another user"},
		{"checkpoint/owned", "internal/userdb", Shell, "whether a folder is its owner's alone"},
	}
}

// node is what runs a job on a node, and what leads.
func node() []Row {
	return []Row{
		{"agent/proc", "cluster agent/run", Shell, "processes of this machine, as /proc shows them"},
		{"agent/agenttest", "agent/run", Shell, "what the tests of a node's packages share"},
		{"agent/rundir", "cluster agent/run internal/durable internal/systemd", Shell, "the files of a run, and the names of what belongs to it"},
		{"agent/owner", "cluster internal/userdb", Shell, "whom a job's processes run as on this node"},
		{"agent/contain", "cluster record agent/run agent/proc", Shell, "holds a run's processes together, and within what they may have"},
		{"agent/devicelock", "cluster agent/proc agent/rundir", Shell, "keeps a device for one run at a time"},
		{"agent/sweep", "cluster record agent/run agent/proc agent/rundir agent/contain agent/devicelock", Shell, "finds and ends what is left of a run"},
		{"agent/precheck", "cluster record agent/run agent/owner agent/child checkpoint/owned internal/pycommand internal/userdb", Shell, "whether a node has what a run needs, looked at as its owner"},
		{"agent/warm", "cluster record agent/run agent/proc agent/contain agent/owner sdk internal/pycommand internal/durable", Shell, "has workers run ahead of their generation, and releases them"},
		{"agent/shim", "cluster record record/reason agent/fence agent/run agent/ranklog agent/logprogress agent/proc agent/rundir agent/owner agent/contain agent/devicelock agent/sweep agent/precheck agent/warm sdk internal/logging internal/systemd internal/durable internal/userdb", Shell, "hosts one generation's workers and outlives the agent"},
		{"checkpoint/dirblob", "cluster record checkpoint checkpoint/layout checkpoint/owned", Shell, "Blobs on a directory"},
		{"checkpoint/blobtest", "cluster record checkpoint checkpoint/layout", Shell, "one suite for every Blobs"},

		{"coordinator/lead", below4, Shell, "leads: campaign, load, tick, persist, then act"},
		{"agent/host/loop", "record agent", Shell, "one goroutine that owns the state of an agent, and what runs beside it"},
		{"agent/host/devices", "cluster record agent agent/run agent/proc agent/sweep agent/devicelock agent/host/loop api nvml internal/userdb", Shell, "what devices a node has to give, and who is on them"},
		{"agent/host/saves", "cluster record agent agent/run agent/owner agent/precheck agent/child agent/host/loop checkpoint checkpoint/owned checkpoint/dirblob internal/durable internal/userdb store", Shell, "the work with what jobs save"},
		// Neither the store nor the loop: what kills past the deadline waits for nothing that may hang.
		{"agent/host/watchdog", "record agent agent/proc agent/sweep", Shell, "kills workers that live past their deadline"},
		{"agent/host", below4 + " agent/host/loop agent/host/devices agent/host/saves agent/host/watchdog", Shell, "runs a node: observations in, actions out"},
	}
}

// beyond is what production knows nothing of: the laboratory, the command line and what holds all to the rules.
func beyond() []Row {
	return []Row{
		{"lab/trace", "cluster", Virtual, "readers of job traces; the caller opens the file"},
		{"lab/machine", "cluster record record/reason checkpoint/layout agent agent/fence agent/run", Pure, "a node in memory that the real agent.Plan runs"},
		// Never lead, host or store: if the simulator needs one of them, a decision has leaked into a shell.
		{"lab/sim", "cluster record allocator allocator/goodput allocator/lookahead allocator/solve allocator/place allocator/policy " +
			"coordinator rendezvous agent agent/fence lab/machine lab/trace", Virtual, "the same decisions in virtual time"},
		{"lab/rules/elasticflow", "cluster lab/trace lab/sim", Virtual, "another simulator's conventions, for numbers that compare"},
		{"lab/rules/muri", "lab/trace lab/sim", Virtual, "another simulator's conventions, for numbers that compare"},
		{"lab/rules/pollux", "cluster lab/trace lab/sim", Virtual, "another simulator's conventions, for numbers that compare"},
		{"lab/rules/saxena", "cluster allocator/split lab/trace lab/sim", Virtual, "another simulator's conventions, for numbers that compare"},
		{"lab/rules/wei", "allocator/goodput lab/trace lab/sim", Virtual, "a published experiment's tasks, for numbers that compare"},
		{"lab/milp", "cluster allocator allocator/solve allocator/capacity", Shell, "reference models for an outside solver; never part of a decision"},
		{"lab/file", "internal/fault", Shell, "opens files for readers"},
		{"lab/plan", "allocator/capacity allocator/goodput internal/fault internal/yamltext lab/trace", Shell, "which nodes to run for a set of jobs, in virtual time"},
		{"lab/batch", "cluster allocator allocator/policy internal/fault internal/units lab/trace lab/sim lab/file", Shell, "many simulations on all cores"},
		{"lab/rules", "internal/fault lab/file lab/trace lab/batch lab/rules/elasticflow lab/rules/muri lab/rules/pollux lab/rules/saxena lab/rules/wei", Shell, "the table of the conventions of other simulators"},
		{"lab/referee", "allocator allocator/policy allocator/solve lab/batch lab/milp", Shell, "other solvers answer hu's questions in a simulation, and are compared"},
		{"lab/plot", "internal/fault internal/units lab/batch", Shell, "draws the runs of a batch"},
		{"lab/reproduce", "allocator/capacity lab/milp lab/sim lab/plan lab/file lab/batch", Shell, "published experiments, next to the published figures"},
		{"lab/bench", "allocator/solve internal/fault lab/milp lab/file", Shell, "parts of Bellows measured by themselves"},
		{"lab/fidelity", "allocator/policy api internal/fault lab/trace lab/sim", Shell, "the simulator next to a cluster of real processes"},

		{"cli/jobspec", "cluster internal/fault cli/flags internal/units internal/yamltext agent/precheck checkpoint/owned", Shell, "flags, environment and job files to a spec"},
		{"cli/socketpath", "", Shell, "where the socket of an agent is"},
		{"cli/ask", "cluster api internal/fault cli/socketpath", Shell, "commands ask the agent"},
		{"cli/render", "cluster record record/reason api cli/output internal/units", Sealed, "what the API answers, for people"},
		{"cli/follow", "cluster api internal/fault internal/units cli/output cli/ask cli/render", Shell, "shows a job while it runs"},
		{"cli/profile", "cluster api internal/fault internal/units cli/output cli/ask", Shell, "measures a job at several sizes"},
		{"cli/verify", "sdk internal/fault cli/output internal/units", Shell, "trains a script twice, rescaled and not, and compares"},
		{"cli/service", "cluster store store/server agent/host coordinator/lead internal/logging internal/metrics internal/systemd internal/trust", Shell, "runs an agent or a coordinator as a service"},
		{"cli/settings", "cluster record allocator/policy coordinator coordinator/lead agent/host agent/host/devices nvml store store/server internal/fault internal/metrics " +
			"cli/flags cli/service cli/socketpath internal/trust internal/units internal/yamltext", Shell, "the settings of an agent and of a coordinator"},
		{
			"cli/dev", "cluster record allocator/policy agent/sweep api api/serve store store/server internal/fault cli/output cli/settings cli/socketpath internal/units",
			Shell, "a small cluster on one machine, kept running",
		},

		{"cli/command", "api store cli/flags cli/output cli/service cli/settings internal/fault", Shell, "what every program has around its commands"},
		{"cli/command/commandtest", "cli/flags", Shell, "what the scripts that test a command line share"},
		{"lab/simulate", "allocator/policy cli/command cli/flags cli/output internal/fault internal/units lab/batch lab/plot lab/sim lab/trace", Shell, "the command simulate, of both programs"},

		{"cmd/bellows", below4 + " " + front + " " + planning, Shell, "the program of servers and users: a file per command"},
		{"cmd/bellows-lab", "cli/command cli/dev cli/output cli/settings internal/fault " + laboratory, Shell, "the program of the laboratory: a file per command"},
		{"e2e", "cluster record api store store/server", Shell, "real binaries, real etcd, watched from outside"},
		{"tools/arch", "", Shell, "these rules"},
		{"tools/progress", "tools/arch", Shell, "runs a tier of the tests and says how they go"},
		{"tools/mutants", "", Shell, "the safety rules, taken out one at a time, and the tests that must notice"},
	}
}

// A Library is a third-party module and the packages that may import it: one,
// wherever the library is something that could be replaced.
type Library struct {
	Prefix string // of the import path
	Owners string // space-separated packages
	Tests  string // packages whose test files may import it besides
	Why    string
}

// Libraries is the list of what is not ours.
func Libraries() []Library {
	const shells = "internal/logging internal/membership internal/metrics store store/server store/etcdtest nvml api/serve agent/warm agent/shim agent/host/loop agent/host coordinator/lead cli/service cli/settings cli/dev cli/command"
	return []Library{
		{"github.com/hashicorp/memberlist", "internal/membership", "", "gossip"},
		{"go.etcd.io/etcd", "store store/server store/etcdtest", "store/storetest e2e", "the store: its client and its server"},
		{"go.etcd.io/bbolt", "store/server", "", "opens etcd's database before etcd does, which ends the process if it cannot read it"},
		{"go.uber.org/zap", "store store/server", "", "etcd's logger"},
		{"google.golang.org/grpc", "store store/server", "", "the status codes of etcd's errors, and the end of its clients' streams"},
		{"github.com/NVIDIA/go-nvml", "nvml", "", "the device library"},
		{"github.com/prometheus/client_golang", "internal/metrics", "", "counters, histograms, and the format that is scraped"},
		{"github.com/prometheus/client_model", "internal/metrics", "e2e", "the same as values"},
		{"github.com/prometheus/common", "", "internal/metrics e2e", "parses what is scraped"},
		{"github.com/tetratelabs/wazero", "lab/milp", "", "runs the solver without cgo"},
		{"github.com/prometheus/procfs", "cli/dev cli/verify tools/progress", "e2e", "the processes of this machine, for what is no agent: agents kill by pidfd what agent/proc has read"},
		{"github.com/coreos/go-systemd", "internal/systemd", "", "readiness and watchdog notices"},
		{"github.com/spf13/cobra", "cmd/bellows cmd/bellows-lab cli/command cli/command/commandtest lab/simulate", "", "commands, help and completion"},
		{"github.com/spf13/pflag", "cli/flags", "", "cobra's flags"},
		{"go.yaml.in/yaml", "internal/yamltext", "", "job files; inside, specs are JSON"},
		{"golang.org/x/sys", "agent/child agent/proc agent/agenttest agent/owner agent/contain agent/devicelock agent/sweep agent/precheck agent/warm agent/shim agent/host checkpoint/owned api/serve store store/server tools/progress", "e2e internal/logging", "pidfd, cgroups, peer credentials, file locks, the clock that counts sleep"},
		{"github.com/rs/zerolog", shells, "e2e agent/host/devices agent/host/saves", "logs: for shells, pure code has nothing to log"},
		{"github.com/rogpeppe/go-internal", "cli/command/commandtest", "cmd/bellows cmd/bellows-lab e2e", "testscript"},
	}
}

// allows reports whether a space-separated list names the package.
func allows(list, path string) bool {
	for name := range strings.FieldsSeq(list) {
		if name == path {
			return true
		}
	}
	return false
}
