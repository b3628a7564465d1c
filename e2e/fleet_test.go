package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/server"
)

// binary is the built program, made once by TestMain; plain is the same without the race detector, for short-lived
// processes: commands, and what agents start. With it, starting them would take half of the suite's processor time;
// agent/shim and cmd/bellows test them with it. With -short, more runs without it: see program.
var binary, plain string

// raceVariable, if set, has the program built with the race detector though the tests are not: they and the etcd in
// their process, which is etcd's own code, took a fifth of the suite's processor time with it.
const raceVariable = "BELLOWS_E2E_RACE"

// raced says whether the program has the race detector.
func raced() bool { return raceEnabled || os.Getenv(raceVariable) != "" }

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if binary = os.Getenv(inside); binary != "" {
			plain = cmp.Or(os.Getenv(withoutRace), binary)
			return m.Run() // the test that started this process has built it
		}
		dir, err := os.MkdirTemp("", "bellows-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if err = os.Chmod(dir, 0o755); err != nil { //nolint:gosec // other users run the program too
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		binary, plain = filepath.Join(dir, "bellows"), filepath.Join(dir, "bellows")
		if err = build("../cmd/bellows", binary, raced()); err == nil && raced() {
			plain = filepath.Join(dir, "plain", "bellows")
			err = errors.Join(build("../cmd/bellows", plain, false), os.Setenv(withoutRace, plain))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "build bellows:", err)
			return 1
		}
		reports, err := keepRaces(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		status := m.Run()
		if races := racesIn(reports); races != "" {
			fmt.Fprint(os.Stderr, races)
			return 1
		}
		return status
	}())
}

// withoutRace tells agents with the race detector of the program without it: cli/settings.
const withoutRace = "PROGRAM_WITHOUT_RACE_DETECTOR"

// build builds a program from its folder.
func build(from, path string, race bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // other users run the program too
		return err
	}
	cmd := exec.Command("go", "build", "-race="+strconv.FormatBool(race), "-ldflags=-s -w", "-o", path, from) // no test needs symbols, which take the linker longest
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// config of a fleet; zero fields take the defaults of newFleet.
type config struct {
	nodes, devices, coordinators int
	policy                       string
	interval                     time.Duration
	// migrations is how many jobs may move in an interval for others. It is none, unlike in
	// production, but in tests of that: others assert each generation of a job and why it began,
	// and whether a job moves depends on what starts were measured to cost, which the
	// machine's load changes. That moves break no rule, the coordinator's storms show.
	migrations int
}

// fleet is a cluster on this machine: etcd in the test's process, everything else in
// processes of its own. Its parts are what a test acts on: the place where the cluster
// lives, its processes, the records in its etcd, the people who use it, the scripts
// that it trains, and its certificates. What needs several parts is the fleet's own.
type fleet struct {
	*place
	*processes
	*records
	*people
	*scripts
	*secrets
	config config
}

// place is a directory and addresses that no other fleet has. It is where a test's own
// failures are told, so that each part of a fleet has it.
type place struct {
	t      testing.TB
	dir    string
	subnet int
	claim  net.Listener // holds the subnet
	// hosts are processes in network namespaces, one for each node; nil = all nodes are on loopback.
	hosts []int
	// instead is run in place of the program that is tested; empty = nothing is.
	instead string
}

// processes are those of a fleet, by name, and what else lives in its place.
type processes struct {
	*place
	procs map[string]*proc
}

type proc struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once it has been waited for
}

func (p *proc) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// records are what is in the cluster's etcd, read past Bellows.
type records struct {
	*processes
	etcd  *server.Server
	store *store.Store
	// endpoint is etcd's address.
	endpoint string
	// seen are the records as they were read last, from seenIn: to read them all again when
	// nothing was written took a fifth of the processor time of a test that waits.
	seen   *record.Mirror
	seenIn *store.Store
}

// people use the program on the nodes.
type people struct {
	*place
	records *records
}

// scripts are what jobs run, and what they say of themselves in their traces.
type scripts struct {
	*records
	traces map[string]*trace // by job name
}

// secrets are the cluster's keys and certificates.
type secrets struct{ *place }

// subnets numbers the 127.x.y.0/24 that this process has asked for.
var subnets atomic.Int32

// claimSubnet takes a 127.x.y.0/24 that no other fleet has, of this test process
// or another one: the process that listens at port 7945 of its last address has it.
func (p *place) claimSubnet() {
	p.t.Helper()
	const last, tries = 253, 1000
	var err error
	for range tries {
		p.subnet = os.Getpid()%15000*16 + int(subnets.Add(1))
		if p.claim, err = net.Listen("tcp", p.addr(last)+":7945"); err == nil {
			return
		}
	}
	p.t.Fatalf("no subnet is free: %v", err)
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

// in is the fleet for a subtest, which fails by itself.
func (f *fleet) in(t *testing.T) *fleet {
	p := *f.place
	p.t = t
	ps := processes{&p, f.procs}
	r := *f.records
	r.processes = &ps
	return &fleet{&p, &ps, &r, &people{&p, &r}, &scripts{&r, f.traces}, &secrets{&p}, f.config}
}

// awaitMembers waits until all nodes are there and there is a leader. An agent that
// has ended will not be there: it fails at once.
func (f *fleet) awaitMembers() {
	f.t.Helper()
	f.await("all nodes and a leader", func(m *record.Mirror) bool {
		for i := range f.config.nodes {
			if p := f.procs[fmt.Sprintf("agent-n%d", i+1)]; p != nil && p.ended() {
				f.t.Fatalf("%s has ended (%s) before all nodes were there", p.name, p.cmd.ProcessState)
			}
		}
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
	p := &place{t: t, dir: dir}
	ps := &processes{p, map[string]*proc{}}
	r := &records{processes: ps}
	f := &fleet{p, ps, r, &people{p, r}, &scripts{r, map[string]*trace{}}, &secrets{p}, c}
	t.Cleanup(f.close)
	f.claimSubnet()
	return f
}

// startEtcd starts etcd at the fleet's endpoint, with the data that it had before. The
// endpoint has an address of the fleet's own: a port of 127.0.0.1 could be another
// process's when etcd is started again.
func (r *records) startEtcd() {
	r.t.Helper()
	if r.endpoint == "" {
		r.endpoint = r.addr(0) + ":2379"
	}
	var err error
	r.etcd, err = server.Start(context.Background(), server.Config{
		DataDir: filepath.Join(r.dir, "etcd"), Client: r.endpoint, Log: zerolog.Nop(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.endpoint = r.etcd.Endpoint()
	r.store, err = openStore(r.endpoint)
	if err != nil {
		r.t.Fatal(err)
	}
}

func node(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("n%d", i)) }

// addr is the address of node i of this fleet: on its host, else on loopback.
func (p *place) addr(i int) string {
	if p.hosts != nil {
		return fmt.Sprintf("10.77.0.%d", i)
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+p.subnet>>8%250, p.subnet&255, i+1)
}

func (p *place) socket(i int) string  { return filepath.Join(p.dir, fmt.Sprintf("n%d.sock", i)) }
func (p *place) nodeDir(i int) string { return filepath.Join(p.dir, fmt.Sprintf("n%d", i)) }

func (f *fleet) startAgent(i int, more ...string) *proc {
	f.t.Helper()
	args := []string{
		"agent", "--node", string(node(i)), "--etcd", f.endpoint, "--bind", f.addr(i), "--socket", f.socket(i),
		"--data-dir", f.nodeDir(i), "--simulate-devices", fmt.Sprint(f.config.devices), "--lock-dir", filepath.Join(f.dir, "locks"),
	}
	args = append(append([]string{f.program(i, f.config.nodes)}, args...), more...)
	if f.hosts != nil {
		args = append([]string{"nsenter", "-t", fmt.Sprint(f.hosts[i-1]), "-n"}, args...)
	}
	return f.startProgram(fmt.Sprintf("agent-n%d", i), args[0], args[1:]...)
}

// program is what agent or server i of n runs. With -short one of them has the race detector: which one is drawn from the
// test's name. All run the same code, and with it in all agents they are a third of the suite's processor time.
func (p *place) program(i, n int) string {
	if p.instead != "" {
		return p.instead
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.t.Name()))
	if testing.Short() && i != 1+int(h.Sum32()%uint32(n)) {
		return plain
	}
	return binary
}

func (f *fleet) startCoordinator(i int, more ...string) *proc {
	f.t.Helper()
	args := []string{
		"coordinator", "--etcd", f.endpoint, "--name", fmt.Sprintf("c%d", i), "--policy", f.config.policy, "--interval", f.config.interval.String(),
		"--migrations", fmt.Sprint(f.config.migrations),
	}
	return f.start(fmt.Sprintf("coordinator-%d", i), append(args, more...)...)
}

func (ps *processes) start(name string, args ...string) *proc {
	ps.t.Helper()
	return ps.startProgram(name, cmp.Or(ps.instead, binary), args...)
}

func (ps *processes) startProgram(name, program string, args ...string) *proc {
	ps.t.Helper()
	p := &proc{name: name, log: filepath.Join(ps.dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		ps.t.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		ps.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	ps.procs[name] = p
	return p
}

// kill sends SIGKILL and waits until the process is gone.
func (ps *processes) kill(name string) {
	ps.t.Helper()
	p := ps.procs[name]
	_ = p.cmd.Process.Kill()
	<-p.done
}

// close ends the fleet and whatever is left of it, and shows the logs of a failed test.
func (f *fleet) close() {
	for name := range f.procs {
		f.kill(name)
	}
	cgroups := f.cgroups()
	for _, pid := range f.leftovers() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, dir := range cgroups {
		removeCgroup(dir)
	}
	if f.store != nil {
		_ = f.store.Close()
	}
	if f.etcd != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
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
func (ps *processes) leftovers() []int { return ps.mentioning(ps.dir + "/") }

// mentioning lists the processes with text in their arguments or environment.
func (ps *processes) mentioning(text string) []int {
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

func (ps *processes) showLogs() {
	logs, _ := filepath.Glob(filepath.Join(ps.dir, "*.log"))
	for _, log := range logs {
		b, _ := os.ReadFile(log)
		const most = 20000
		if len(b) > most {
			b = b[len(b)-most:]
		}
		ps.t.Logf("── %s\n%s", filepath.Base(log), b)
	}
}

// nonce is that of a job's generation.
func (r *records) nonce(id cluster.JobID, g cluster.Generation) string {
	r.t.Helper()
	return r.mirror().Job(id).Generation(g).Plan.Value.World.Nonce
}

// mirror reads the records. They are not to be changed: a later call may return the same ones.
func (r *records) mirror() *record.Mirror {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, rev, err := r.store.Range(ctx, record.Root+"nothing/")
	if err != nil {
		r.t.Fatal(err)
	}
	if r.seen != nil && r.seenIn == r.store && r.seen.Revision == rev {
		return r.seen
	}
	kvs, rev, err := r.store.Range(ctx, record.Root)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := record.NewMirror(kvs, rev)
	if err != nil {
		r.t.Fatal(err)
	}
	r.seen, r.seenIn = m, r.store
	return m
}

// await polls the records until cond holds.
func (r *records) await(what string, cond func(*record.Mirror) bool) *record.Mirror {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		m := r.mirror()
		if cond(m) {
			return m
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("waited %s in vain for %s\n%s", patience, what, describe(m))
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
func (u *people) bellows(args ...string) (stdout, stderr string, code int) {
	u.t.Helper()
	return u.bellowsOn(1, args...)
}

func (u *people) bellowsOn(i int, args ...string) (stdout, stderr string, code int) {
	u.t.Helper()
	if len(args) > 0 && slices.Contains([]string{"show", "ps", "nodes", "events"}, args[0]) {
		u.caughtUp(i)
	}
	s := startSession(u.t, u.command(i, args...))
	code = s.wait()
	return s.out.String(), s.errs.String(), code
}

// caughtUp waits until the agent of node i has read what is in etcd now: a test that has
// waited for a record may then demand that commands tell of it. Where one of the two does
// not answer, or the agent is kept from etcd, it is left at that.
func (u *people) caughtUp(i int) {
	u.t.Helper()
	if u.records.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.t.Context()), 2*time.Second)
	defer cancel()
	_, revision, err := u.records.store.Range(ctx, record.LeaderPrefix)
	if err != nil {
		return
	}
	for client := u.client(i); ; time.Sleep(10 * time.Millisecond) {
		if status, err := client.Status(ctx); err != nil || status.Revision >= revision {
			return
		}
	}
}

// client asks the agent of node i as commands do, but without a process for each question: with the race
// detector its start takes more processor time than the answer, and a test that waits asks often.
func (u *people) client(i int) *api.Client { return api.NewClient(u.socket(i)) }

// command is a command line for the agent of node i.
func (u *people) command(i int, args ...string) *exec.Cmd {
	program := plain
	if args[0] == "dev" { // agents and coordinators are in their processes
		program = binary
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "BELLOWS_SOCKET="+u.socket(i), "OMP_NUM_THREADS=1")
	return cmd
}

// workers lists the processes that carry the job in their environment.
func (ps *processes) workers(id cluster.JobID) []int {
	var pids []int
	for _, pid := range ps.leftovers() {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if strings.Contains(string(environ), "BELLOWS_JOB="+string(id)+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// openStore connects the test itself to an etcd without certificates, with bounds for a busy machine.
func openStore(endpoint string) (*store.Store, error) {
	return store.Open(context.Background(), store.Config{
		Endpoints: []string{endpoint}, DialTimeout: patience, CallTimeout: patience, Log: zerolog.Nop(),
	})
}
