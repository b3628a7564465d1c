package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/trust"
)

// issueAt makes a folder of certificates as if the clock said another time: by a
// machine whose clock is wrong, or long ago.
func (s *secrets) issueAt(folder string, node cluster.NodeID, now time.Time, life time.Duration) string {
	s.t.Helper()
	s.identity("watcher") // and with it the authority
	out := filepath.Join(s.dir, folder)
	err := trust.Issue(trust.Request{Authority: filepath.Join(s.dir, "ca"), Folder: out, Node: node, Life: life}, now)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// foreign makes a folder of a node's from another authority.
func (s *secrets) foreign(folder string, node cluster.NodeID) string {
	s.t.Helper()
	ca, out := filepath.Join(s.dir, folder+"-ca"), filepath.Join(s.dir, folder)
	s.run(exec.Command(plain, "tls", "init", "--ca", ca))
	s.run(exec.Command(plain, "tls", "issue", string(node), "--ca", ca, "--out", out))
	return out
}

// An agent does not start with a certificate that every peer would refuse.
func TestAnAgentWithAWrongCertificateDoesNotStart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	torn := f.issueAt("torn", "n2", time.Now(), time.Hour)
	if err := os.Truncate(filepath.Join(torn, trust.CertFile), 100); err != nil {
		t.Fatal(err)
	}
	open := f.issueAt("open", "n2", time.Now(), time.Hour)
	if err := os.Chmod(filepath.Join(open, trust.KeyFile), 0o644); err != nil { //nolint:gosec // what is under test
		t.Fatal(err)
	}
	swapped := f.issueAt("pair", "n2", time.Now(), time.Hour)
	other := f.issueAt("other", "n2", time.Now(), time.Hour)
	if err := os.Rename(filepath.Join(other, trust.KeyFile), filepath.Join(swapped, trust.KeyFile)); err != nil {
		t.Fatal(err)
	}
	before := f.mirror().Revision
	for _, c := range []struct {
		name, dir string
		says      []string
	}{
		{"ended", f.issueAt("ended", "n2", time.Now().Add(-3*time.Hour), time.Hour), []string{"the certificate of node n2 ended ", "bellows tls renew n2"}},
		{"of a clock two hours fast", f.issueAt("early", "n2", time.Now().Add(2*time.Hour), time.Hour), []string{
			"the certificate of node n2 is valid from ", "the clock here says ", "correct the clock that is wrong",
		}},
		{"of another node", f.issueAt("swapped", "n3", time.Now(), time.Hour), []string{"it is of node n3, and this is node n2: bellows tls issue n2 makes the right one"}},
		{"with another's key", swapped, []string{"read certificate of this node", "private key does not match"}},
		{"torn", torn, []string{"read certificate of this node"}},
		{"with a key that all may read", open, []string{"others may read it (mode 0644): chmod 600 it"}},
		{"missing", filepath.Join(f.dir, "nothing"), []string{"bellows tls issue n2 makes them"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := f.startAgent(2, "--tls-dir", c.dir)
			if slices.Contains([]string{"ended", "of a clock two hours fast", "with another's key", "torn"}, c.name) {
				f.mustEnd(p, c.says...) // it is tried again: a clock is set, and a certificate renewed, file by file
			} else {
				f.mustGiveUp(p, c.says...)
			}
			if err := os.Truncate(p.log, 0); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, keys := range f.writes(before, f.mirror().Revision) {
		t.Errorf("something was written: %v", keys)
	}

	// Another agent, or anything else, at the port for other nodes.
	taken := f.listenTCP(f.addr(2) + ":7947")
	f.mustEnd(f.startAgent(2, "--tls-dir", f.issueAt("right", "n2", time.Now(), time.Hour)), taken, "address already in use")
}

// What a person reads who asks for a log that another node keeps, when one of the
// two has no certificate that the other takes.
func TestLogsBetweenNodesThatDoNotTrustEachOther(t *testing.T) {
	t.Parallel()
	right := func(f *fleet, n cluster.NodeID) string { return f.identity(string(n)) }
	none := func(*fleet, cluster.NodeID) string { return "" }
	foreign := func(f *fleet, n cluster.NodeID) string { return f.foreign("foreign", n) }
	ending := func(f *fleet, n cluster.NodeID) string { return f.issueAt("ending", n, time.Now(), time.Hour) }
	// end exchanges that certificate for one that ended a minute ago, as if so much time had passed.
	end := func(f *fleet, n cluster.NodeID) {
		ended := f.issueAt("ended", n, time.Now().Add(-time.Hour-time.Minute), time.Hour)
		for _, name := range []string{trust.KeyFile, trust.CertFile} {
			if err := os.Rename(filepath.Join(ended, name), filepath.Join(f.dir, "ending", name)); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name          string
		asks, answers func(*fleet, cluster.NodeID) string
		says          []string
	}{
		{"who asks has no certificate", none, right, []string{"it wants a certificate, and node n1 has none: issue one with bellows tls issue n1"}},
		{"who answers is of another authority", right, foreign, []string{
			`the certificate of node n2 is from authority "Bellows bellows"`, "issue it from this cluster's authority",
		}},
		{"who asks is of another authority", foreign, right, []string{`is from authority "Bellows bellows"`}},
		{"the certificate of who answers has ended meanwhile", right, ending, []string{"the certificate of node n2 ended ", "bellows tls renew n2"}},
		{"the certificate of who asks has ended meanwhile", ending, right, []string{"refuses the certificate of this node", "bellows tls show"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := emptyFleet(t, config{nodes: 2})
			f.startEtcd()
			f.startCoordinator(1)
			f.identity("watcher") // and with it the authority
			for i, dir := range []string{c.asks(f, "n1"), c.answers(f, "n2")} {
				if dir == "" {
					f.startAgent(i + 1)
				} else {
					f.startAgent(i+1, "--tls-dir", dir)
				}
			}
			f.awaitMembers()
			j := f.shellJob("far", "echo said there\n")
			j["node"] = []string{"n2"}
			f.awaitPhase(f.submit(j), cluster.Succeeded)
			if _, err := os.Stat(filepath.Join(f.dir, "ending")); err == nil {
				end(f, map[bool]cluster.NodeID{true: "n2", false: "n1"}[strings.Contains(c.name, "who answers")])
			}
			var said string
			f.eventually("why the log is missing", func() bool {
				out, errs, _ := f.bellows("logs", "far")
				said = out + errs
				return containsAll(said, append(c.says, "node n2: ")...) && !strings.Contains(said, "said there")
			})
			if out, errs, _ := f.bellowsOn(2, "logs", "far"); !strings.Contains(out, "said there") {
				t.Errorf("on the node itself nothing is in the way: %s%s", out, errs)
			}
		})
	}
}

// An etcd that runs inside the coordinators is for nodes of its authority, and says so to others.
func TestEtcdRefusesCertificates(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{})
	s := f.startServers("c1")
	s.awaitState("c1", settled("c1"))
	for _, c := range []struct {
		name, dir string
		says      []string
	}{
		{"foreign", f.foreign("foreign", "n1"), []string{"the certificate of node c1 is from authority", "does not hold"}},
		{"none", "", []string{"TLS: "}},
	} {
		args := []string{"etcd", "members", "--config", "none", "--etcd", f.endpoint}
		if c.dir != "" {
			args = append(args, "--tls-dir", c.dir)
		}
		if _, errs, code := f.bellows(args...); code != 3 || !containsAll(errs, c.says...) {
			t.Errorf("%s: exit %d, %s\nwant %q", c.name, code, errs, c.says)
		}
	}
	// Its authority's file holds both, so that only the server refuses it.
	half := f.foreign("half", "n1")
	both, err := os.ReadFile(filepath.Join(f.dir, "ca", trust.AuthorityFile))
	if err == nil {
		var own []byte
		own, err = os.ReadFile(filepath.Join(half, trust.AuthorityFile))
		both = append(own, both...)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(half, trust.AuthorityFile), both, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, errs, code := f.bellows("etcd", "members", "--config", "none", "--etcd", f.endpoint, "--tls-dir", half)
	if code != 3 || !containsAll(errs, "it refuses this client's certificate") {
		t.Errorf("exit %d, %s", code, errs)
	}
	f.startAgent(1, "--tls-dir", half)
	f.awaitLog(f.procs["agent-n1"], "etcd does not answer", "it refuses this client's certificate")
}

func containsAll(text string, words ...string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
