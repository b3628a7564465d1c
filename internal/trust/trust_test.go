package trust

import (
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// issue makes a node's folder, signed by the authority in ca.
func issue(t *testing.T, ca string, node cluster.NodeID, life time.Duration) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), string(node))
	if err := Issue(Request{ca, out, node, life, false}, epoch); err != nil {
		t.Fatal(err)
	}
	return out
}

func authority(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	if err := Init(dir, "test", false, epoch); err != nil {
		t.Fatal(err)
	}
	return dir
}

func identity(t *testing.T, dir string, node cluster.NodeID, now time.Time) *Identity {
	t.Helper()
	i, err := load(dir, node, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// talk lets a client say a word to a server over TLS, and returns what each side says of it.
func talk(t *testing.T, server, client *tls.Config) (peer cluster.NodeID, serverErr, clientErr error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan error, 1)
	go func() {
		conn, failed := ln.Accept()
		if failed != nil {
			done <- failed
			return
		}
		defer conn.Close()
		secure := tls.Server(conn, server)
		if failed = secure.HandshakeContext(t.Context()); failed == nil {
			state := secure.ConnectionState()
			peer, failed = Peer(&state)
			_, _ = secure.Write([]byte("hello"))
		}
		done <- failed
	}()
	conn, err := tls.Dial("tcp", ln.Addr().String(), client)
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 5))
		_ = conn.Close()
	}
	return peer, <-done, err
}

func says(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: nothing is wrong", what)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

func TestNodesOfOneAuthorityTalk(t *testing.T) {
	ca := authority(t)
	n1, n2 := identity(t, issue(t, ca, "n1", DefaultLife), "n1", epoch), identity(t, issue(t, ca, "n2", DefaultLife), "n2", epoch)
	peer, serverErr, clientErr := talk(t, n2.Server(), n1.Client("n2"))
	if peer != "n1" || serverErr != nil || clientErr != nil {
		t.Errorf("peer %q, %v, %v", peer, serverErr, clientErr)
	}
}

func TestWhoIsAskedIsWhoWasMeant(t *testing.T) {
	ca := authority(t)
	n1, n3 := identity(t, issue(t, ca, "n1", DefaultLife), "n1", epoch), identity(t, issue(t, ca, "n3", DefaultLife), "n3", epoch)
	_, _, err := talk(t, n3.Server(), n1.Client("n2"))
	says(t, "n3 at n2's address", err, "asked node n2", "is of node n3", "swapped")
}

func TestOthersAreRefused(t *testing.T) {
	ca, foreign := authority(t), authority(t)
	server := identity(t, issue(t, ca, "n2", DefaultLife), "n2", epoch).Server()

	_, err, _ := talk(t, server, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the client under suspicion
	says(t, "no certificate", err, "certificate")

	stranger := identity(t, issue(t, foreign, "n1", DefaultLife), "n1", epoch)
	stranger.roots.AppendCertsFromPEM(mustRead(t, filepath.Join(ca, AuthorityFile))) // it trusts us, we do not trust it
	_, err, _ = talk(t, server, stranger.Client("n2"))
	says(t, "another authority", err, "node n1", `authority "Bellows test"`, "does not hold")

	n1 := issue(t, ca, "n1", time.Hour)
	old := identity(t, n1, "n1", epoch)
	late := identity(t, issue(t, ca, "n2", DefaultLife), "n2", epoch.Add(3*time.Hour)).Server()
	_, err, _ = talk(t, late, old.Client("n2"))
	says(t, "ended", err, "node n1 ended 2026-03-01T13:00:00Z", "bellows tls renew n1", "clock here says 2026-03-01T15:00:00Z")

	early := identity(t, issue(t, ca, "n2", DefaultLife), "n2", epoch)
	early.now = func() time.Time { return epoch.Add(-2 * time.Hour) }
	_, err, _ = talk(t, early.Server(), old.Client("n2"))
	says(t, "clock two hours slow", err, "valid from 2026-03-01T11:50:00Z", "clock here says 2026-03-01T10:00:00Z", "correct the clock")
}

func TestOldTLSIsRefused(t *testing.T) {
	ca := authority(t)
	n1, n2 := identity(t, issue(t, ca, "n1", DefaultLife), "n1", epoch), identity(t, issue(t, ca, "n2", DefaultLife), "n2", epoch)
	client := n1.Client("n2")
	client.MinVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	_, serverErr, clientErr := talk(t, n2.Server(), client)
	says(t, "TLS 1.2", errors.Join(serverErr, clientErr), "protocol version")
}

// A renewed certificate takes effect with the next connection.
func TestRenewalNeedsNoRestart(t *testing.T) {
	ca := authority(t)
	dir := issue(t, ca, "n1", time.Hour)
	now := epoch
	n1, err := load(dir, "n1", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	n2, err := load(issue(t, ca, "n2", DefaultLife), "n2", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	client, server := n1.Client("n2"), n2.Server()
	now = epoch.Add(2 * time.Hour)
	_, err, _ = talk(t, server, client)
	says(t, "before it is renewed", err, "ended")
	if err = Issue(Request{ca, dir, "n1", DefaultLife, true}, now); err != nil {
		t.Fatal(err)
	}
	if peer, serverErr, clientErr := talk(t, server, client); peer != "n1" || serverErr != nil || clientErr != nil {
		t.Errorf("renewed: peer %q, %v, %v", peer, serverErr, clientErr)
	}
	if want := now.Add(DefaultLife); !n1.Ends().Equal(want) {
		t.Errorf("renewed it ends %s, want %s", n1.Ends(), want)
	}
}

// With both authorities in its file a node knows certificates of either: so one
// is rotated while the cluster runs.
func TestRotationOfTheAuthority(t *testing.T) {
	ca := authority(t)
	old, fresh := issue(t, ca, "n1", DefaultLife), issue(t, ca, "n2", DefaultLife)
	if err := Init(ca, "test", true, epoch.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := Issue(Request{ca, fresh, "n2", DefaultLife, true}, epoch.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	now := epoch.Add(2 * time.Hour)
	n1, n2 := identity(t, old, "n1", now), identity(t, fresh, "n2", now)
	_, err, _ := talk(t, n1.Server(), n2.Client("n1"))
	says(t, "n1 does not know the new authority yet", err, "authority")
	if err := replace(filepath.Join(old, AuthorityFile), mustRead(t, filepath.Join(ca, AuthorityFile)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, way := range [][2]*Identity{{n1, n2}, {n2, n1}} {
		if _, serverErr, clientErr := talk(t, way[0].Server(), way[1].Client(way[0].node)); serverErr != nil || clientErr != nil {
			t.Errorf("%s asks %s: %v, %v", way[1].node, way[0].node, serverErr, clientErr)
		}
	}
}

// Files half replaced leave what was read before in force.
func TestFilesInBetweenAreNotTaken(t *testing.T) {
	ca := authority(t)
	dir := issue(t, ca, "n1", DefaultLife)
	n1, n2 := identity(t, dir, "n1", epoch), identity(t, issue(t, ca, "n2", DefaultLife), "n2", epoch)
	other := issue(t, ca, "n1", DefaultLife)
	if err := replace(filepath.Join(dir, KeyFile), mustRead(t, filepath.Join(other, KeyFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, serverErr, clientErr := talk(t, n2.Server(), n1.Client("n2")); serverErr != nil || clientErr != nil {
		t.Errorf("with the next key beside the present certificate: %v, %v", serverErr, clientErr)
	}
	if _, err := Load(dir, "n1"); err == nil || !errors.Is(err, ErrPasses) {
		t.Errorf("a node starts with a key that is not its certificate's, or never would: %v", err)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	ca := authority(t)
	says(t, "a second authority", Init(ca, "test", false, epoch), "there is an authority already", "--rotate")
	says(t, "rotate nothing", Init(t.TempDir(), "test", true, epoch), "no authority to rotate")
	dir := issue(t, ca, "n1", DefaultLife)
	says(t, "issue again", Issue(Request{ca, dir, "n1", DefaultLife, false}, epoch), "certificate of node n1 already")
	says(t, "renew another's", Issue(Request{ca, dir, "n2", DefaultLife, true}, epoch), "is of node n1, not of n2")
	says(t, "no authority", Issue(Request{t.TempDir(), filepath.Join(t.TempDir(), "x"), "n1", DefaultLife, false}, epoch), "bellows tls init")
	says(t, "outlives the authority", Issue(Request{ca, filepath.Join(t.TempDir(), "x"), "n1", 20 * authorityLife, false}, epoch), "rotate it first")
	for _, name := range []string{filepath.Join(ca, AuthorityKeyFile), filepath.Join(dir, KeyFile)} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestANodeStartsOnlyWithItsOwnAndAValidCertificate(t *testing.T) {
	ca := authority(t)
	dir := issue(t, ca, "n1", time.Hour)
	for _, c := range []struct {
		what  string
		node  cluster.NodeID
		now   time.Time
		words []string
	}{
		{"another's", "n2", epoch, []string{"is of node n1", "node n2"}},
		{"ended", "n1", epoch.Add(2 * time.Hour), []string{"ended", "renew"}},
		{"early", "n1", epoch.Add(-2 * time.Hour), []string{"is valid from", "correct the clock"}},
	} {
		_, err := load(dir, c.node, func() time.Time { return c.now })
		says(t, c.what, err, c.words...)
		if passes := errors.Is(err, ErrPasses); passes != (c.what != "another's") {
			t.Errorf("%s: it passes by itself: %t", c.what, passes)
		}
	}
	if err := os.Chmod(filepath.Join(dir, KeyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := load(dir, "n1", func() time.Time { return epoch })
	says(t, "a key that others may read", err, "chmod 600")
	_, err = Load(filepath.Join(dir, "nothing"), "n1")
	says(t, "no files", err, "bellows tls issue n1")
	// Root, as whom this may run, is never refused.
	i := &Identity{dir: dir, node: "n1"}
	denied := i.remedy(&fs.PathError{Op: "stat", Path: dir, Err: syscall.EACCES})
	if !strings.Contains(denied, "chown -R ") || !strings.HasSuffix(denied, " "+dir) || strings.Contains(denied, "tls issue") {
		t.Errorf("files of another user: %q", denied)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
