package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// devRoom is a place for `bellows dev`: a data directory and a socket, both short-lived.
type devRoom struct {
	*fleet // for its directory and its looking around; nothing of it runs
}

func newDevRoom(t *testing.T) devRoom {
	t.Helper()
	return devRoom{emptyFleet(t, config{})}
}

func (d devRoom) data() string { return filepath.Join(d.dir, "data") }

// dev is the command line of `bellows dev` in this room.
func (d devRoom) dev(more ...string) *exec.Cmd {
	return d.command(1, append([]string{"dev", "--nodes", "2", "--devices-per-node", "1", "--interval", "500ms", "--data-dir", d.data()}, more...)...)
}

// up starts `bellows dev` and waits until its cluster is ready.
func (d devRoom) up(more ...string) *session {
	d.t.Helper()
	s := startOnTerminal(d.t, d.dev(more...))
	s.await("ready in")
	return s
}

// empty demands that of a `bellows dev` that has ended nothing is left: no
// process, no cgroup, no socket, no lock that is held, no listener at the port.
func (d devRoom) empty(port int) {
	d.t.Helper()
	if left := d.leftovers(); len(left) > 0 {
		d.t.Errorf("processes %v are left", left)
	}
	d.noCgroups("*")
	if sockets, _ := filepath.Glob(filepath.Join(d.dir, "*.sock")); len(sockets) > 0 {
		d.t.Errorf("sockets are left: %v", sockets)
	}
	if port != 0 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			d.t.Errorf("the port is not free: %v", err)
			return
		}
		_ = l.Close()
	}
}

// noCgroups demands that runs have left no cgroup, those of one node or, for "*", of all.
func (d devRoom) noCgroups(node string) {
	d.t.Helper()
	for _, dir := range d.cgroupsOf("data/run/" + node + "/*") {
		if _, err := os.Stat(dir); err == nil {
			d.t.Errorf("cgroup %s is left", dir)
		}
	}
}

// Ctrl-C lets the jobs save; the next start goes on with them. While a cluster
// runs, a second one is not started on its data, its socket or its port.
func TestDevIsLeftAndTakenUpAgain(t *testing.T) {
	t.Parallel()
	d := newDevRoom(t)
	port := freePort(t)
	first := d.up("--etcd-port", fmt.Sprint(port))
	for _, c := range []struct {
		name string
		cmd  *exec.Cmd
		says string
	}{
		{
			"on the same data", d.dev("--socket", filepath.Join(d.dir, "other.sock")),
			fmt.Sprintf("another 'bellows dev' (pid %d) runs on %s: stop that one, or choose another --data-dir", first.cmd.Process.Pid, d.data()),
		},
		{
			"on the same socket", d.dev("--data-dir", filepath.Join(d.dir, "other")),
			"another agent answers there: stop it, or choose another --socket",
		},
		{
			"on the same port", d.dev("--data-dir", filepath.Join(d.dir, "other"), "--socket", filepath.Join(d.dir, "other.sock"), "--etcd-port", fmt.Sprint(port)),
			fmt.Sprintf("127.0.0.1:%d: bind: address already in use: another program listens there, perhaps another Bellows: stop it or choose another port", port),
		},
	} {
		s := startSession(t, c.cmd)
		if code := s.wait(); code != 1 || !strings.Contains(s.errs.String(), c.says) {
			t.Errorf("a second cluster %s: exit %d, %s\nwant %s", c.name, code, s.said(), c.says)
		}
		if left := d.mentioning(filepath.Join(d.dir, "other")); len(left) > 0 {
			t.Errorf("processes %v are left of it", left)
		}
	}

	id := d.submit(d.sdkJob("kept", 1, 2, 1<<30, 0.1))
	d.awaitStep("kept", 5, 2)
	first.press("\x03")
	first.await("halting 1 job with a save")
	if code := first.wait(); code != 0 || !strings.Contains(first.said(), "everything has ended; 'bellows dev' goes on from "+d.data()) {
		t.Errorf("exit %d: %s", code, first.said())
	}
	d.empty(port)

	reached := d.lastStep("kept")
	second := d.up("--etcd-port", fmt.Sprint(port))
	d.awaitStep("kept", reached, 2)
	for step, n := range takes(d.trace("kept")) {
		if n != 1 {
			t.Errorf("step %d was taken %d times", step, n)
		}
	}
	if s := d.show(id); s.Restarts != 0 {
		t.Errorf("being left cost restarts: %+v", s)
	}
	second.press("\x03")
	if code := second.wait(); code != 0 {
		t.Errorf("exit %d: %s", code, second.said())
	}
	d.empty(port)
}

// Started with fewer nodes, a dev cluster has fewer: no job waits for those of
// the run before, whether that was shut down or killed.
func TestDevWithFewerNodes(t *testing.T) {
	t.Parallel()
	d := newDevRoom(t)
	first := d.up("--nodes", "3")
	id := d.submit(d.sdkJob("moves", 1, 4, 1<<30, 0.1))
	d.awaitStep("moves", 5, 2)
	first.press("\x03")
	first.wait()

	second := d.up("--nodes", "2")
	second.await("taken out of the cluster, as an earlier run had them and this one has not: n3")
	d.awaitStep("moves", d.lastStep("moves")+5, 2)
	d.nodesAre("n1", "n2")
	if err := second.cmd.Process.Kill(); err != nil { // and all that it had started goes on
		t.Fatal(err)
	}
	<-second.ended

	third := d.up("--nodes", "1")
	third.await("this one has not: n2")
	d.awaitShown(id, "it to go on with one worker", func(s api.JobStatus) bool { return s.Phase == cluster.Running && s.Workers == 1 })
	third.press("\x03")
	third.wait()

	fourth := d.up("--nodes", "1") // by now nothing is known of n2
	d.awaitStep("moves", d.lastStep("moves")+5, 1)
	d.nodesAre("n1")
	fourth.press("\x03")
	fourth.wait()

	fourth = d.up("--nodes", "2") // and n2 is a node like any other
	d.awaitShown(id, "it to run on both nodes", func(s api.JobStatus) bool { return s.Phase == cluster.Running && s.Workers == 2 })
	had := len(d.cgroupsOf("data/run/n2/*"))
	d.mustBellows("dev", "kill", "n2")
	d.noCgroups("n2")
	d.mustBellows("dev", "start", "n2")
	if os.Geteuid() == 0 && had == 0 {
		t.Error("n2 had no cgroup to leave")
	}
	d.stop(id)
	d.awaitShown(id, "its end", func(s api.JobStatus) bool { return s.Phase == cluster.Stopped })
	fourth.press("\x03")
	fourth.wait()
	d.empty(0)
}

// A script that does not hear holds Ctrl-C up; a second one kills everything,
// and the job goes on from its last checkpoint at the next start.
func TestDevSecondCtrlCKills(t *testing.T) {
	t.Parallel()
	d := newDevRoom(t)
	s := d.up()
	const deaf = "trap '' TERM\nmkdir -p \"$BELLOWS_CHECKPOINT_DIR/step-1\"\ntouch \"$BELLOWS_CHECKPOINT_DIR/step-1/COMPLETE\"\n" +
		"echo from \"${BELLOWS_RESUME_FROM:-nothing}\"\nwhile :; do sleep 0.1; done\n"
	id := d.submit(d.shellJob("deaf", deaf))
	d.awaitShown(id, "a checkpoint", func(s api.JobStatus) bool { return len(s.Checkpoints) > 0 })
	s.press("\x03")
	s.await("halting 1 job with a save")
	s.press("\x03")
	if code := s.wait(); code != 0 || !strings.Contains(s.said(), "killing everything") {
		t.Errorf("exit %d: %s", code, s.said())
	}
	d.empty(0)

	s = d.up()
	status := d.awaitShown(id, "its next generation", func(s api.JobStatus) bool { return s.Generation > 1 && s.Phase == cluster.Running })
	if status.Restarts != 0 {
		t.Errorf("it was charged: %+v", status)
	}
	logs := startSession(t, d.command(1, "logs", "-f", "deaf"))
	logs.await("from " + filepath.Join(d.dir, "ckpt", string(id)))
	logs.signal(syscall.SIGTERM)
	// The other way to end it: the job first, then the cluster.
	d.mustBellows("stop", "--now", string(id))
	d.awaitShown(id, "its end", func(s api.JobStatus) bool { return s.Phase == cluster.Stopped })
	logs.wait()
	s.press("\x03")
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d: %s", code, s.said())
	}
	d.empty(0)
}

// Data that is not a dev cluster's of this version is left alone.
func TestDevOnOthersData(t *testing.T) {
	t.Parallel()
	d := newDevRoom(t)
	for _, c := range []struct {
		name, file, text, says string
		code                   int
	}{
		{"another cluster's", "etcd/cluster", "production\n", `/etcd holds cluster "production", not "dev": choose another directory, or that cluster's name`, 2},
		{"not etcd's", "etcd/etcd/member/snap/db", "these are not the pages of a database", "if the data is damaged, restore it from a backup, or move it away to begin with an empty one", 1},
		{"a node's of a newer version", "nodes/n1/agent.json", `{"format": 2, "node": "n1"}`, "it has format 2, this version of Bellows reads format 1", 1},
	} {
		data := filepath.Join(d.dir, strings.Map(lettersOnly, c.name))
		path := filepath.Join(data, c.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := startSession(t, d.dev("--data-dir", data))
		if code := s.wait(); code != c.code || !strings.Contains(s.said(), c.says) {
			t.Errorf("data that is %s: exit %d, %s\nwant %s", c.name, code, s.said(), c.says)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != c.text {
			t.Errorf("data that is %s was changed to %q, %v", c.name, text, err)
		}
		d.empty(0)
	}
}

// An agent that has the socket already keeps it.
func TestDevBesideAnAgent(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	d := devRoom{f}
	s := startSession(t, d.dev())
	want := "listen on " + f.socket(1) + ": another agent answers there: stop it, or choose another --socket"
	if code := s.wait(); code != 1 || !strings.Contains(s.said(), want) {
		t.Errorf("exit %d, %s\nwant %s", code, s.said(), want)
	}
	if _, errs, code := f.bellows("nodes"); code != 0 {
		t.Errorf("the agent is not found any more: %s", errs)
	}
	if left := d.mentioning(d.data()); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// freePort is one at which no process listened a moment ago. It is below those that the
// kernel gives to processes that ask for any, so that none of them gets it meanwhile.
func freePort(t *testing.T) int {
	t.Helper()
	const first, count = 20000, 8000
	for i := range 100 {
		port := first + (os.Getpid()*100+i)%count
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}
