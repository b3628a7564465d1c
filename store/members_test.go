package store_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// freeAddress returns an address of this machine at which nobody listens, nor will
// before the test does: one of millions, which nobody is given by chance, with a
// port that no connection gets by itself.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		n := rand.IntN(1 << 22)
		address := fmt.Sprintf("127.%d.%d.%d:2379", 64+n>>16, n>>8&0xff, n&0xff)
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		if err != nil {
			continue
		}
		if err = l.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
}

// trio are the members of an etcd, and where clients reach each.
type trio struct {
	t       *testing.T
	members []store.Member
	clients map[string]string
	dirs    map[string]string
}

func newTrio(t *testing.T, names ...string) *trio {
	t.Helper()
	tr := &trio{t: t, clients: map[string]string{}, dirs: map[string]string{}}
	for _, name := range names {
		tr.members = append(tr.members, tr.member(name))
	}
	return tr
}

// member makes up a server that may become one.
func (tr *trio) member(name string) store.Member {
	tr.t.Helper()
	tr.clients[name], tr.dirs[name] = freeAddress(tr.t), tr.t.TempDir()
	return store.Member{Name: name, URL: "http://" + freeAddress(tr.t)}
}

func (tr *trio) config(name string) store.EmbeddedConfig {
	cfg := embedded(tr.dirs[name])
	cfg.Member, cfg.Members, cfg.Client = name, tr.members, tr.clients[name]
	return cfg
}

// start starts servers at once, as they wait for each other, and returns them when they take writes.
func (tr *trio) start(names ...string) []*store.Server {
	tr.t.Helper()
	servers, errs := make([]*store.Server, len(names)), make(chan error, len(names))
	for i, name := range names {
		go func() {
			var err error
			servers[i], err = store.StartEmbedded(tr.t.Context(), tr.config(name))
			errs <- err
		}()
	}
	for range names {
		if err := <-errs; err != nil {
			tr.t.Fatal(err)
		}
	}
	for _, s := range servers {
		tr.t.Cleanup(func() { stopServer(tr.t, s) })
	}
	for _, s := range servers {
		closes(tr.t, "the etcd of "+strings.Join(names, ", ")+" takes writes", s.Ready())
	}
	return servers
}

// refused starts a server that is not to start, and returns why.
func (tr *trio) refused(name string) string {
	tr.t.Helper()
	s, err := store.StartEmbedded(tr.t.Context(), tr.config(name))
	if err == nil {
		stopServer(tr.t, s)
		tr.t.Fatalf("%s was not refused", name)
	}
	return err.Error()
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

// A lost member does not come back by itself, is replaced, and does not come
// back after that either.
func TestAMemberIsReplaced(t *testing.T) {
	t.Parallel()
	tr := newTrio(t, "n1", "n2", "n3")
	servers := tr.start("n1", "n2", "n3")
	s := open(t, servers[0].Endpoint())
	commit(t, s, put("a", "kept"))

	stopServer(t, servers[2])
	lost := tr.dirs["n3"]
	tr.dirs["n3"] = t.TempDir()
	if text := tr.refused("n3"); !strings.Contains(text, "has no data, but n") || !strings.Contains(text, "bellows etcd remove n3") {
		t.Errorf("a member without its disk: %s", text)
	}
	says(t, "remove one that is needed", s.RemoveMember(t.Context(), "n2"), "of the 2 members that would be left only 1 would answer (not n3)", "bring another back first")
	says(t, "add one that is there", s.AddMember(t.Context(), tr.members[2]), "remove that one first")
	says(t, "add another of its name", s.AddMember(t.Context(), store.Member{Name: "n3", URL: "http://127.0.0.1:1"}), "there is a member of this name", "bellows etcd remove n3")
	says(t, "remove a stranger", s.RemoveMember(t.Context(), "n9"), "no such member: there are n1, n2, n3")

	n4 := tr.member("n4")
	before := tr.members
	tr.members = []store.Member{before[0], before[1], n4}
	if text := tr.refused("n4"); !strings.Contains(text, "has no place for n4") || !strings.Contains(text, "bellows etcd add n4 "+n4.URL) {
		t.Errorf("a member that was not added: %s", text)
	}
	if err := s.RemoveMember(t.Context(), "n3"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // adding it again does no harm
		if err := s.AddMember(t.Context(), n4); err != nil {
			t.Fatal(err)
		}
	}
	says(t, "add a second one meanwhile", s.AddMember(t.Context(), store.Member{Name: "n5", URL: "http://127.0.0.1:1"}), "another member, at "+n4.URL+", is joining")
	joined := tr.start("n4")[0]
	got, _, err := open(t, joined.Endpoint()).Get(t.Context(), "a")
	if err != nil || string(got.Value) != "kept" {
		t.Errorf("the new member has %q, %v", got.Value, err)
	}
	members, err := s.Members(t.Context())
	if err != nil || len(members) != 3 {
		t.Fatalf("members %+v, %v", members, err)
	}
	for i, name := range []string{"n1", "n2", "n4"} {
		if m := members[i]; m.Name != name || !m.Answers || m.Learner || m.Problem != "" {
			t.Errorf("member %+v, want %s in good order", m, name)
		}
	}

	tr.members, tr.dirs["n3"] = before, lost
	back, err := store.StartEmbedded(t.Context(), tr.config("n3"))
	if err != nil {
		t.Fatal(err)
	}
	defer stopServer(t, back)
	closes(t, "the end of a member that was removed", back.Ended())
	says(t, "a member that was removed", back.Why(), "this member, n3, was removed from its cluster", "move "+lost+" away", "bellows etcd add n3")
}

// One server becomes three, without a change to its data.
func TestOneBecomesThree(t *testing.T) {
	t.Parallel()
	tr := newTrio(t, "n1")
	alone := startServer(t, embedded(tr.dirs["n1"]))
	s := open(t, alone.Endpoint())
	commit(t, s, put("a", "kept"))
	stopServer(t, alone)

	first := tr.start("n1")[0]
	s = open(t, first.Endpoint())
	for _, name := range []string{"n2", "n3"} {
		m := tr.member(name)
		// As soon as n1 says where it is reached, others can join it.
		for deadline := time.Now().Add(soon); ; time.Sleep(50 * time.Millisecond) {
			members, err := s.Members(t.Context())
			if err == nil && members[0].Name == "n1" && members[0].URL == tr.members[0].URL {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("members %+v, %v", members, err)
			}
		}
		if err := s.AddMember(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		tr.members = append(tr.members, m)
		tr.start(name)
	}
	stopServer(t, first) // two of three are enough
	got, _, err := open(t, tr.clients["n3"]).Get(t.Context(), "a")
	if err != nil || string(got.Value) != "kept" {
		t.Errorf("after the first has gone: %q, %v", got.Value, err)
	}
}

// Without a quorum nothing is answered wrongly, and the servers say whom they miss.
func TestQuorumIsLostAndFoundAgain(t *testing.T) {
	t.Parallel()
	tr := newTrio(t, "n1", "n2", "n3")
	servers := tr.start("n1", "n2", "n3")
	s := openHasty(t, servers[0].Endpoint())
	commit(t, s, put("a", "1"))
	stopServer(t, servers[1])
	stopServer(t, servers[2])
	if out := s.Commit(t.Context(), record.Txn{ID: "b", Then: []record.Op{put("b", "1")}}); out.Result == record.Applied {
		t.Error("one of three has taken a write")
	}
	look := openWith(t, store.Config{Endpoints: []string{servers[0].Endpoint()}, DialTimeout: soon, AnyMember: true})
	members, err := look.Members(t.Context())
	if err != nil || len(members) != 3 || !members[0].Answers || members[1].Answers || members[1].Problem == "" {
		t.Errorf("members without a quorum: %+v, %v", members, err)
	}
	tr.start("n2")
	commit(t, open(t, servers[0].Endpoint()), put("c", "1"))
}

func TestASnapshotIsRestored(t *testing.T) {
	t.Parallel()
	tr := newTrio(t, "n1", "n2", "n3")
	servers := tr.start("n1", "n2", "n3")
	s := open(t, servers[0].Endpoint())
	commit(t, s, put("a", "kept"))
	file := filepath.Join(t.TempDir(), "backup")
	if size, err := s.Snapshot(t.Context(), file); err != nil || size == 0 {
		t.Fatalf("snapshot of %d bytes: %v", size, err)
	}
	broken, cancel := after(t, soon)
	cancel()
	if _, err := s.Snapshot(broken, file+".2"); err == nil {
		t.Error("a snapshot that was interrupted is there")
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("an interrupted snapshot leaves %v, %v", left, err)
	}
	at := commit(t, s, put("a", "newer"))
	if _, err := s.Snapshot(t.Context(), file); err == nil || !strings.Contains(err.Error(), "exists: choose another name") {
		t.Errorf("a snapshot over another: %v", err)
	}
	says(t, "restore over data", store.Restore(tr.config("n1"), file), "has data already: move it away")
	for _, server := range servers {
		stopServer(t, server)
	}

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err = os.WriteFile(damaged, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name := range tr.dirs {
		tr.dirs[name] = t.TempDir()
	}
	says(t, "restore a damaged file", store.Restore(tr.config("n1"), damaged), "restore "+damaged)
	for name := range tr.dirs {
		if err = store.Restore(tr.config(name), file); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, tr.start("n1", "n2", "n3")[0].Endpoint())
	got, exists, err := again.Get(t.Context(), "a")
	if err != nil || !exists || string(got.Value) != "kept" {
		t.Errorf("restored %q, %v, %v", got.Value, exists, err)
	}
	if revision := commit(t, again, put("b", "1")); revision <= at {
		t.Errorf("after the restore the revision is %d, and was %d before: who waits for more would wait for long", revision, at)
	}
}

// Restoring deletes what is in the way, which must never be data.
func TestDataAreNotRestoredOver(t *testing.T) {
	t.Parallel()
	cfg := embedded(filepath.Join(t.TempDir(), "etcd[1]"))
	server := startServer(t, cfg)
	s := open(t, server.Endpoint())
	commit(t, s, put("a", "1"))
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := s.Snapshot(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	stopServer(t, server)
	says(t, "over data in a folder of an odd name", store.Restore(cfg, file), "has data already: move it away")
	member := filepath.Join(cfg.DataDir, "etcd", "member")
	if err := os.RemoveAll(filepath.Join(member, "wal")); err != nil {
		t.Fatal(err)
	}
	says(t, "over a database that has lost its log", store.Restore(cfg, file), "has data already: move it away")
	if err := os.RemoveAll(member); err != nil {
		t.Fatal(err)
	}
	if err := store.Restore(cfg, file); err != nil {
		t.Errorf("over nothing: %v", err)
	}
}

func TestMembersThatDoNotFit(t *testing.T) {
	t.Parallel()
	tr := newTrio(t, "n1", "n2", "n3")
	log, lines := logger()
	other := tr.config("n2")
	other.Members = []store.Member{tr.members[0], tr.members[1], {Name: "n4", URL: "http://127.0.0.1:1"}}
	foreign := tr.config("n3")
	foreign.Name, foreign.DataDir = "another", t.TempDir()
	all := []store.EmbeddedConfig{tr.config("n1"), other, foreign}
	ctx, cancel := after(t, soon)
	defer cancel()
	waits := make(chan error, len(all))
	for _, cfg := range all {
		cfg.Log = log
		go func() { _, err := store.StartEmbedded(ctx, cfg); waits <- err }()
	}
	for _, want := range []string{
		"member n2 was told of the members", "set the same --etcd-members on all",
		`is of cluster \"another\", this one of \"test\": set the same --cluster on all`,
	} {
		awaitLine(t, lines, want)
	}
	cancel()
	for range all {
		says(t, "waiting that was ended", <-waits, "context canceled")
	}

	moved := tr.config("n2")
	moved.Member, moved.Members = "n3", tr.members[2:]
	says(t, "another member's data", startRefused(t, moved), `is of member "n2", not "n3"`)
}

// awaitLine waits until something was logged.
func awaitLine(t *testing.T, lines *journal, want string) {
	t.Helper()
	for deadline := time.Now().Add(soon); !strings.Contains(lines.String(), want); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nobody says %q:\n%s", want, lines)
		}
	}
}

// startRefused starts a server until it is refused.
func startRefused(t *testing.T, cfg store.EmbeddedConfig) error {
	t.Helper()
	ctx, cancel := after(t, soon)
	defer cancel()
	s, err := store.StartEmbedded(ctx, cfg)
	if err == nil {
		stopServer(t, s)
	}
	return err
}
