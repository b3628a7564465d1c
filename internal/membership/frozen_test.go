package membership

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// peerEnv makes this test binary be a node of its own process, bound to the
// value, until its stdin ends.
const peerEnv = "BELLOWS_TEST_MEMBERSHIP_PEER"

func TestMain(m *testing.M) {
	if bind := os.Getenv(peerEnv); bind != "" {
		if err := bePeer(bind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func bePeer(bind string) error {
	g, err := Start(Config{Node: "peer", Bind: bind, Key: testKey()})
	if err != nil {
		return err
	}
	fmt.Println(g.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	if err != nil {
		return err
	}
	return g.Close()
}

// startPeer starts a node in a process of its own.
func startPeer(t *testing.T, bind string) (process *os.Process, addr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), peerEnv+"="+bind)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill() // a stopped one does not notice its stdin
		_ = cmd.Wait()
	})
	addr, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process, strings.TrimSpace(addr)
}

func signal(t *testing.T, p *os.Process, sig syscall.Signal) {
	t.Helper()
	if err := p.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// A process that is stopped still has a kernel that takes its connections; it
// must count as failed all the same, and be back by itself when it goes on.
func TestFrozenPeerFailsAndThaws(t *testing.T) {
	a := startNode(t, "a", 1)
	process, addr := startPeer(t, "127.0.0.2:0")
	if _, err := a.Join(t.Context(), []string{addr}); err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, a, Joined, "peer")
	signal(t, process, syscall.SIGSTOP)
	awaitEvent(t, a, Failed, "peer")
	signal(t, process, syscall.SIGCONT)
	awaitEvent(t, a, Joined, "peer")
	signal(t, process, syscall.SIGKILL)
	awaitEvent(t, a, Failed, "peer")
}
