package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/server"
)

// binary is the built program, made once by TestMain.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "bellows-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // other users run the program too
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		binary = filepath.Join(dir, "bellows")
		args := []string{"build", "-o", binary}
		if raceEnabled {
			args = append(args, "-race")
		}
		build := exec.Command("go", append(args, "../cmd/bellows")...)
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build bellows:", err)
			return 1
		}
		return m.Run()
	}())
}

// config of a fleet; zero fields take the defaults of newFleet.
type config struct {
	nodes, devices, coordinators int
	policy                       string
	interval                     time.Duration
}

// fleet is a cluster on this machine: etcd in the test's process, everything else in processes of its own.
type fleet struct {
	t      testing.TB
	config config
	dir    string
	subnet int
	claim  net.Listener // holds the subnet
	etcd   *server.Server
	store  *store.Store
	// endpoint is etcd's address.
	endpoint string
	procs    map[string]*proc
	traces   map[string]*trace // by job name
	// hosts are processes in network namespaces, one for each node; nil = all nodes are on loopback.
	hosts []int
}

type proc struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once it has been waited for
}

// subnets numbers the 127.x.y.0/24 that this process has asked for.
var subnets atomic.Int32

// claimSubnet takes a 127.x.y.0/24 that no other fleet has, of this test process
// or another one: whoever listens at port 7945 of its last address has it.
func (f *fleet) claimSubnet() {
	f.t.Helper()
	const last, tries = 253, 1000
	var err error
	for range tries {
		f.subnet = os.Getpid()%15000*16 + int(subnets.Add(1))
		if f.claim, err = net.Listen("tcp", f.addr(last)+":7945"); err == nil {
			return
		}
	}
	f.t.Fatalf("no subnet is free: %v", err)
}

func newFleet(t testing.TB, c config) *fleet {
	t.Helper()
	f := emptyFleet(t, c)
	f.startEtcd()
	for i := range f.config.coordinators {
		f.startCoordinator(i + 1)
	}
	for i := range f.config.nodes {
		f.startAgent(i + 1)
	}
	f.awaitMembers()
	return f
}

// awaitMembers waits until all nodes are there and somebody leads.
func (f *fleet) awaitMembers() {
	f.t.Helper()
	f.await(patience, "all nodes and a leader", func(m *record.Mirror) bool {
		alive := 0
		for _, n := range m.Nodes {
			if n.Alive.Exists() && n.Inventory.Exists() {
				alive++
			}
		}
		return alive == f.config.nodes && len(m.Leaders) > 0
	})
}

// emptyFleet is a fleet of which nothing runs yet.
func emptyFleet(t testing.TB, c config) *fleet {
	t.Helper()
	c.nodes, c.devices, c.coordinators = max(c.nodes, 1), max(c.devices, 1), max(c.coordinators, 1)
	if c.policy == "" {
		c.policy = "greedy"
	}
	if c.interval == 0 {
		c.interval = 500 * time.Millisecond
	}
	dir, err := os.MkdirTemp("", "b") //nolint:usetesting // t.TempDir's paths are too long for the unix sockets below
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // every user may talk to an agent
		t.Fatal(err)
	}
	f := &fleet{t: t, config: c, dir: dir, procs: map[string]*proc{}, traces: map[string]*trace{}}
	t.Cleanup(f.close)
	f.claimSubnet()
	return f
}

// startEtcd starts etcd at the fleet's endpoint, any free one at first, with the data that it had before.
func (f *fleet) startEtcd() {
	f.t.Helper()
	var err error
	f.etcd, err = server.Start(context.Background(), server.Config{
		DataDir: filepath.Join(f.dir, "etcd"), Client: f.endpoint, Log: zerolog.Nop(),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.endpoint = f.etcd.Endpoint()
	f.store, err = store.Open(context.Background(), store.Config{Endpoints: []string{f.endpoint}, Log: zerolog.Nop()})
	if err != nil {
		f.t.Fatal(err)
	}
}

func node(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("n%d", i)) }

// addr is the address of node i of this fleet: on its host, else on loopback.
func (f *fleet) addr(i int) string {
	if f.hosts != nil {
		return fmt.Sprintf("10.77.0.%d", i)
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+f.subnet>>8%250, f.subnet&255, i+1)
}

func (f *fleet) socket(i int) string  { return filepath.Join(f.dir, fmt.Sprintf("n%d.sock", i)) }
func (f *fleet) nodeDir(i int) string { return filepath.Join(f.dir, fmt.Sprintf("n%d", i)) }

func (f *fleet) startAgent(i int, more ...string) *proc {
	f.t.Helper()
	args := []string{
		"agent", "--node", string(node(i)), "--etcd", f.endpoint, "--bind", f.addr(i), "--socket", f.socket(i),
		"--data-dir", f.nodeDir(i), "--simulate-devices", fmt.Sprint(f.config.devices), "--lock-dir", filepath.Join(f.dir, "locks"),
	}
	args = append(args, more...)
	if f.hosts != nil {
		args = append([]string{"nsenter", "-t", fmt.Sprint(f.hosts[i-1]), "-n", binary}, args...)
		return f.startProgram(fmt.Sprintf("agent-n%d", i), args[0], args[1:]...)
	}
	return f.start(fmt.Sprintf("agent-n%d", i), args...)
}

func (f *fleet) startCoordinator(i int, more ...string) *proc {
	f.t.Helper()
	args := []string{
		"coordinator", "--etcd", f.endpoint, "--name", fmt.Sprintf("c%d", i), "--policy", f.config.policy, "--interval", f.config.interval.String(),
	}
	return f.start(fmt.Sprintf("coordinator-%d", i), append(args, more...)...)
}

func (f *fleet) start(name string, args ...string) *proc {
	f.t.Helper()
	return f.startProgram(name, binary, args...)
}

func (f *fleet) startProgram(name, program string, args ...string) *proc {
	f.t.Helper()
	p := &proc{name: name, log: filepath.Join(f.dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	f.procs[name] = p
	return p
}

// kill sends SIGKILL and waits until the process is gone.
func (f *fleet) kill(name string) {
	f.t.Helper()
	p := f.procs[name]
	_ = p.cmd.Process.Kill()
	<-p.done
}

// close ends the fleet and whatever is left of it, and shows the logs of a failed test.
func (f *fleet) close() {
	for name := range f.procs {
		f.kill(name)
	}
	left := f.leftovers()
	for _, pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if f.store != nil {
		_ = f.store.Close()
	}
	if f.etcd != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_ = f.etcd.Close(ctx)
		cancel()
	}
	if f.t.Failed() {
		f.showLogs()
	}
	if f.claim != nil {
		_ = f.claim.Close()
	}
	_ = os.RemoveAll(f.dir)
}

// leftovers are processes that mention the fleet's directory: shims and workers.
func (f *fleet) leftovers() []int { return f.mentioning(f.dir + "/") }

// mentioning lists the processes with text in their arguments or environment.
func (f *fleet) mentioning(text string) []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if strings.Contains(string(cmdline)+string(environ), text) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (f *fleet) showLogs() {
	logs, _ := filepath.Glob(filepath.Join(f.dir, "*.log"))
	for _, log := range logs {
		b, _ := os.ReadFile(log)
		const most = 20000
		if len(b) > most {
			b = b[len(b)-most:]
		}
		f.t.Logf("── %s\n%s", filepath.Base(log), b)
	}
}

// mirror reads the records.
// nonce is that of a job's generation.
func (f *fleet) nonce(id cluster.JobID, g cluster.Generation) string {
	f.t.Helper()
	return f.mirror().Job(id).Generation(g).Plan.Value.World.Nonce
}

func (f *fleet) mirror() *record.Mirror {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	kvs, rev, err := f.store.Range(ctx, record.Root)
	if err != nil {
		f.t.Fatal(err)
	}
	m, err := record.NewMirror(kvs, rev)
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

// await polls the records until cond holds.
func (f *fleet) await(limit time.Duration, what string, cond func(*record.Mirror) bool) *record.Mirror {
	f.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		m := f.mirror()
		if cond(m) {
			return m
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("waited %s in vain for %s\n%s", limit, what, describe(m))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// describe lists the jobs' states, for a failed wait.
func describe(m *record.Mirror) string {
	var b strings.Builder
	for _, id := range m.NodeIDs() {
		fmt.Fprintf(&b, "node %s alive=%v\n", id, m.Node(id).Alive.Exists())
	}
	for _, id := range m.JobIDs() {
		s := m.Job(id).State.Value
		fmt.Fprintf(&b, "job %s %s gen=%d world=%d reason=%q\n", id, s.Phase, s.Generation, m.Job(id).Generation(s.Generation).Plan.Value.World.Size(), s.Reason)
	}
	return b.String()
}

// bellows runs a command against node n1's agent and returns its output and exit code.
func (f *fleet) bellows(args ...string) (stdout, stderr string, code int) {
	f.t.Helper()
	return f.bellowsOn(1, args...)
}

func (f *fleet) bellowsOn(i int, args ...string) (stdout, stderr string, code int) {
	f.t.Helper()
	s := startSession(f.t, f.command(i, args...))
	code = s.wait()
	return s.out.String(), s.errs.String(), code
}

// command is a command line for the agent of node i.
func (f *fleet) command(i int, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "BELLOWS_SOCKET="+f.socket(i), "OMP_NUM_THREADS=1")
	return cmd
}

// workers lists the processes that carry the job in their environment.
func (f *fleet) workers(id cluster.JobID) []int {
	var pids []int
	for _, pid := range f.leftovers() {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if strings.Contains(string(environ), "BELLOWS_JOB="+string(id)+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}
