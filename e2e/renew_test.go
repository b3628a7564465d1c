package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/trust"
)

// The owner of a job follows its log from a node that has no part in it, while
// certificates are renewed and the authority is exchanged under all agents; a
// stranger is refused there too, and so is in the end who has only the old authority.
func TestCertificatesAreRenewedUnderRunningAgents(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := emptyFleet(t, config{nodes: 3, policy: "share"})
	f.startEtcd()
	f.startCoordinator(1)
	for i := range f.config.nodes {
		f.startAgent(i+1, "--tls-dir", f.certificate(i+1))
	}
	f.awaitMembers()
	script := f.script("count.sh", "trap 'exit 0' TERM\ni=0\nwhile :; do i=$((i+1)); echo line $i of many; sleep 0.1; done\n")
	if err := os.Chmod(script, 0o755); err != nil { //nolint:gosec // it is never run by others
		t.Fatal(err)
	}
	s := f.as(ordinary, "run", "-d", "--name", "a", "--max", "1", "--node", "n2", "--workdir", f.dir, "--checkpoint-dir", f.owned("ckpt", ordinary), "--", script)
	if s.wait() != 0 {
		t.Fatal(s.said())
	}
	id := cluster.JobID(strings.TrimSpace(s.out.String()))
	f.awaitPhase(id, cluster.Running)
	follow := f.as(ordinary, "logs", "-f", "a")
	follow.await("line 1 of many")
	for _, args := range [][]string{{"ps"}, {"show", "a"}} { // as its owner, on a node that has no part in it
		if s := f.as(ordinary, args...); s.wait() != 0 || !strings.Contains(s.said(), "running") {
			t.Errorf("%v: %s", args, s.said())
		}
	}
	refused := f.as(stranger, "logs", "a")
	if code := refused.wait(); code != 1 || !strings.Contains(refused.said(), "only its owner or root may read its logs") {
		t.Errorf("a stranger on n1: exit %d, %s", code, refused.said())
	}

	last := 0
	readable := func(when string) {
		t.Helper()
		out := f.as(ordinary, "logs", "a", "--tail", "1")
		if code := out.wait(); code != 0 || !strings.Contains(out.out.String(), " of many") {
			t.Fatalf("%s: exit %d, %s", when, code, out.said())
		}
		text := out.out.String()
		if _, err := fmt.Sscanf(text[strings.Index(text, "line "):], "line %d of many", &last); err != nil {
			t.Fatalf("%s: %q: %v", when, text, err)
		}
		follow.await(fmt.Sprintf("line %d of many", last))
	}
	ca := filepath.Join(f.dir, "ca")
	folder := func(i int) string { return filepath.Join(f.dir, "tls-"+string(node(i))) }
	tls := func(args ...string) {
		f.run(exec.Command(plain, append(append([]string{"tls"}, args...), "--ca", ca)...))
	}
	give := func(i int, authorities []byte) {
		t.Helper()
		path := filepath.Join(folder(i), trust.AuthorityFile)
		if err := os.WriteFile(path+".new", authorities, 0o644); err != nil { //nolint:gosec // public
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	readable("with the first certificates")
	tls("renew", "n1", "--out", folder(1))
	readable("n1 renewed")
	tls("renew", "n2", "--out", folder(2))
	readable("both renewed")

	// Another authority: all get both, then all certificates of the new one, then
	// the old one is taken away. n3 is forgotten.
	tls("init", "--rotate")
	both, err := os.ReadFile(filepath.Join(ca, trust.AuthorityFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{2, 1} {
		give(i, both)
		readable(fmt.Sprintf("n%d has both authorities", i))
	}
	for _, i := range []int{1, 2} {
		tls("renew", string(node(i)), "--out", folder(i))
		readable(fmt.Sprintf("n%d has a certificate of the new one", i))
	}
	end := []byte("-----END CERTIFICATE-----\n")
	fresh := both[:bytes.Index(both, end)+len(end)]
	if len(fresh) == len(both) {
		t.Fatal("there is one authority only")
	}
	for _, i := range []int{1, 2} {
		give(i, fresh)
		readable(fmt.Sprintf("n%d has the new authority only", i))
	}
	f.eventually("n3 to be refused", func() bool {
		out, errs, _ := f.bellowsOn(3, "logs", "a")
		return !strings.Contains(out, " of many") && strings.Contains(errs, "node n2: ") && strings.Contains(errs, "authority")
	})
	readable("at the end")
	follow.signal(syscall.SIGTERM)
	follow.wait()
	lines := strings.Count(follow.out.String(), " of many")
	if lines < last {
		t.Errorf("of %d lines %d were followed\n%s", last, lines, follow.errs)
	}
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
}
