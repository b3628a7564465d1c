package server_test

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
	"github.com/bellows-ml/bellows/store/etcdtest"
	"github.com/bellows-ml/bellows/store/server"
)

// freeAddress returns an unused loopback address. It is one of millions, so that no
// other test picks it, with a port outside the range of outgoing connections, and not
// etcd's own: a server that listens at all addresses of a machine would have it at each.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		n := rand.IntN(1 << 22)
		address := fmt.Sprintf("127.%d.%d.%d:%d", 64+n>>16, n>>8&0xff, n&0xff, 20000+rand.IntN(10000))
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

// trio is the members of an etcd with their directories and addresses for clients.
type trio struct {
	t       *testing.T
	members []server.Member
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

// member makes up a member.
func (tr *trio) member(name string) server.Member {
	tr.t.Helper()
	tr.clients[name], tr.dirs[name] = freeAddress(tr.t), tr.t.TempDir()
	return server.Member{Name: name, URL: "http://" + freeAddress(tr.t)}
}

func (tr *trio) config(name string) server.Config {
	cfg := etcdtest.Config(tr.dirs[name])
	cfg.Member, cfg.Members, cfg.Client = name, tr.members, tr.clients[name]
	return cfg
}

// start starts servers concurrently, since they wait for each other, and returns them once they accept writes.
func (tr *trio) start(names ...string) []*server.Server {
	tr.t.Helper()
	servers, errs := make([]*server.Server, len(names)), make(chan error, len(names))
	for i, name := range names {
		go func() {
			var err error
			servers[i], err = server.Start(tr.t.Context(), tr.config(name))
			errs <- err
		}()
	}
	for range names {
		if err := <-errs; err != nil {
			tr.t.Fatal(err)
		}
	}
	for _, s := range servers {
		tr.t.Cleanup(func() { etcdtest.Stop(tr.t, s) })
	}
	for _, s := range servers {
		etcdtest.AwaitClosed(tr.t, "the etcd of "+strings.Join(names, ", ")+" takes writes", s.Ready())
	}
	return servers
}

// refused starts a server whose start must fail, and returns the error.
func (tr *trio) refused(name string) string {
	tr.t.Helper()
	s, err := server.Start(tr.t.Context(), tr.config(name))
	if err == nil {
		etcdtest.Stop(tr.t, s)
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

// A member that has lost its data does not start by itself; it is replaced, and
// does not start after that either.
func TestAMemberIsReplaced(t *testing.T) {
	t.Parallel()
	tr := newTrio(t, "n1", "n2", "n3")
	servers := tr.start("n1", "n2", "n3")
	s := etcdtest.Open(t, servers[0].Endpoint())
	admin := server.NewAdmin(s)
	etcdtest.Commit(t, s, etcdtest.Put("a", "kept"))

	etcdtest.Stop(t, servers[2])
	lost := tr.dirs["n3"]
	tr.dirs["n3"] = t.TempDir()
	if text := tr.refused("n3"); !strings.Contains(text, "has no data, but n") || !strings.Contains(text, "bellows etcd remove n3") {
		t.Errorf("a member without its disk: %s", text)
	}
	says(t, "remove one that is needed", admin.RemoveMember(t.Context(), "n2"), "of the 2 members that would be left only 1 would answer (not n3)", "bring another back first")
	says(t, "add one that is there", admin.AddMember(t.Context(), tr.members[2]), "remove that one first")
	says(t, "add another of its name", admin.AddMember(t.Context(), server.Member{Name: "n3", URL: "http://127.0.0.1:1"}), "there is a member of this name", "bellows etcd remove n3")
	says(t, "remove a stranger", admin.RemoveMember(t.Context(), "n9"), "no such member: there are n1, n2, n3")

	n4 := tr.member("n4")
	before := tr.members
	tr.members = []server.Member{before[0], before[1], n4}
	if text := tr.refused("n4"); !strings.Contains(text, "has no place for n4") || !strings.Contains(text, "bellows etcd add n4 "+n4.URL) {
		t.Errorf("a member that was not added: %s", text)
	}
	if err := admin.RemoveMember(t.Context(), "n3"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // adding it again does no harm
		if err := admin.AddMember(t.Context(), n4); err != nil {
			t.Fatal(err)
		}
	}
	says(t, "add a second one meanwhile", admin.AddMember(t.Context(), server.Member{Name: "n5", URL: "http://127.0.0.1:1"}), "another member, at "+n4.URL+", is joining")
	joined := tr.start("n4")[0]
	got, _, err := etcdtest.Open(t, joined.Endpoint()).Get(t.Context(), "a")
	if err != nil || string(got.Value) != "kept" {
		t.Errorf("the new member has %q, %v", got.Value, err)
	}
	members, err := admin.Members(t.Context())
	if err != nil || len(members) != 3 {
		t.Fatalf("members %+v, %v", members, err)
	}
	for i, name := range []string{"n1", "n2", "n4"} {
		if m := members[i]; m.Name != name || !m.Answers || m.Learner || m.Problem != "" {
			t.Errorf("member %+v, want %s in good order", m, name)
		}
	}

	tr.members, tr.dirs["n3"] = before, lost
	back, err := server.Start(t.Context(), tr.config("n3"))
	if err != nil {
		t.Fatal(err)
	}
	defer etcdtest.Stop(t, back)
	etcdtest.AwaitClosed(t, "the end of a member that was removed", back.Ended())
	says(t, "a member that was removed", back.Err(), "this member, n3, was removed from its cluster", "move "+lost+" away", "bellows etcd add n3")
}

// One server becomes three, without a change to its data.
func TestOneBecomesThree(t *testing.T) {
	t.Parallel()
	tr := newTrio(t, "n1")
	alone := etcdtest.Start(t, etcdtest.Config(tr.dirs["n1"]))
	s := etcdtest.Open(t, alone.Endpoint())
	etcdtest.Commit(t, s, etcdtest.Put("a", "kept"))
	etcdtest.Stop(t, alone)

	first := tr.start("n1")[0]
	admin := server.NewAdmin(etcdtest.Open(t, first.Endpoint()))
	for _, name := range []string{"n2", "n3"} {
		m := tr.member(name)
		// As soon as n1 says where it is reached, others can join it.
		for deadline := time.Now().Add(etcdtest.Soon); ; time.Sleep(50 * time.Millisecond) {
			members, err := admin.Members(t.Context())
			if err == nil && members[0].Name == "n1" && members[0].URL == tr.members[0].URL {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("members %+v, %v", members, err)
			}
		}
		if err := admin.AddMember(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		tr.members = append(tr.members, m)
		tr.start(name)
	}
	etcdtest.Stop(t, first) // two of three are enough
	got, _, err := etcdtest.Open(t, tr.clients["n3"]).Get(t.Context(), "a")
	if err != nil || string(got.Value) != "kept" {
		t.Errorf("after the first has gone: %q, %v", got.Value, err)
	}
}

// Without a quorum no write is accepted, and Members names the members that do not answer.
func TestQuorumIsLostAndFoundAgain(t *testing.T) {
	t.Parallel()
	tr := newTrio(t, "n1", "n2", "n3")
	servers := tr.start("n1", "n2", "n3")
	s := etcdtest.OpenHasty(t, servers[0].Endpoint())
	etcdtest.Commit(t, etcdtest.Open(t, servers[0].Endpoint()), etcdtest.Put("a", "1"))
	etcdtest.Stop(t, servers[1])
	etcdtest.Stop(t, servers[2])
	if out := s.Commit(t.Context(), record.Txn{ID: "b", Then: []record.Op{etcdtest.Put("b", "1")}}); out.Result == record.Applied {
		t.Error("one of three has taken a write")
	}
	look := etcdtest.OpenWith(t, store.Config{Endpoints: []string{servers[0].Endpoint()}, DialTimeout: etcdtest.Soon, AnyMember: true})
	members, err := server.NewAdmin(look).Members(t.Context())
	if err != nil || len(members) != 3 || !members[0].Answers || members[1].Answers || members[1].Problem == "" {
		t.Errorf("members without a quorum: %+v, %v", members, err)
	}
	tr.start("n2")
	etcdtest.Commit(t, etcdtest.Open(t, servers[0].Endpoint()), etcdtest.Put("c", "1"))
}

func TestASnapshotIsRestored(t *testing.T) {
	t.Parallel()
	tr := newTrio(t, "n1", "n2", "n3")
	servers := tr.start("n1", "n2", "n3")
	s := etcdtest.Open(t, servers[0].Endpoint())
	etcdtest.Commit(t, s, etcdtest.Put("a", "kept"))
	admin, file := server.NewAdmin(s), filepath.Join(t.TempDir(), "backup")
	if size, err := admin.Snapshot(t.Context(), file); err != nil || size == 0 {
		t.Fatalf("snapshot of %d bytes: %v", size, err)
	}
	broken, cancel := etcdtest.After(t, etcdtest.Soon)
	cancel()
	if _, err := admin.Snapshot(broken, file+".2"); err == nil {
		t.Error("a snapshot that was interrupted is there")
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("an interrupted snapshot leaves %v, %v", left, err)
	}
	at := etcdtest.Commit(t, s, etcdtest.Put("a", "newer"))
	if _, err := admin.Snapshot(t.Context(), file); err == nil || !strings.Contains(err.Error(), "exists: choose another name") {
		t.Errorf("a snapshot over another: %v", err)
	}
	says(t, "restore over data", server.Restore(tr.config("n1"), file), "has data already: move it away")
	for _, server := range servers {
		etcdtest.Stop(t, server)
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
	says(t, "restore a damaged file", server.Restore(tr.config("n1"), damaged), "restore "+damaged)
	for name := range tr.dirs {
		if err = server.Restore(tr.config(name), file); err != nil {
			t.Fatal(err)
		}
	}
	again := etcdtest.Open(t, tr.start("n1", "n2", "n3")[0].Endpoint())
	got, exists, err := again.Get(t.Context(), "a")
	if err != nil || !exists || string(got.Value) != "kept" {
		t.Errorf("restored %q, %v, %v", got.Value, exists, err)
	}
	if revision := etcdtest.Commit(t, again, etcdtest.Put("b", "1")); revision <= at {
		t.Errorf("after the restore the revision is %d, and was %d before: who waits for more would wait for long", revision, at)
	}
}

// Restore deletes the remains of an interrupted one, and never data.
func TestDataAreNotRestoredOver(t *testing.T) {
	t.Parallel()
	cfg := etcdtest.Config(filepath.Join(t.TempDir(), "etcd[1]"))
	etcd := etcdtest.Start(t, cfg)
	s := etcdtest.Open(t, etcd.Endpoint())
	etcdtest.Commit(t, s, etcdtest.Put("a", "1"))
	admin, file := server.NewAdmin(s), filepath.Join(t.TempDir(), "backup")
	if _, err := admin.Snapshot(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	etcdtest.Stop(t, etcd)
	says(t, "over data in a folder of an odd name", server.Restore(cfg, file), "has data already: move it away")
	member := filepath.Join(cfg.DataDir, "etcd", "member")
	if err := os.RemoveAll(filepath.Join(member, "wal")); err != nil {
		t.Fatal(err)
	}
	says(t, "over a database that has lost its log", server.Restore(cfg, file), "has data already: move it away")
	if err := os.RemoveAll(member); err != nil {
		t.Fatal(err)
	}
	if err := server.Restore(cfg, file); err != nil {
		t.Errorf("over nothing: %v", err)
	}
}

func TestMembersThatDoNotFit(t *testing.T) {
	t.Parallel()
	tr := newTrio(t, "n1", "n2", "n3")
	log, lines := etcdtest.NewLog()
	other := tr.config("n2")
	other.Members = []server.Member{tr.members[0], tr.members[1], {Name: "n4", URL: "http://127.0.0.1:1"}}
	foreign := tr.config("n3")
	foreign.Name, foreign.DataDir = "another", t.TempDir()
	all := []server.Config{tr.config("n1"), other, foreign}
	ctx, cancel := etcdtest.After(t, etcdtest.Soon)
	defer cancel()
	waits := make(chan error, len(all))
	for _, cfg := range all {
		cfg.Log = log
		go func() { _, err := server.Start(ctx, cfg); waits <- err }()
	}
	for _, want := range []string{
		"member n2 was told of the members", "set the same --etcd-members on all",
		`is of cluster \"another\", this one of \"test\": set the same --cluster on all`,
	} {
		lines.Await(t, want)
	}
	cancel()
	for range all {
		says(t, "waiting that was ended", <-waits, "context canceled")
	}

	moved := tr.config("n2")
	moved.Member, moved.Members = "n3", tr.members[2:]
	says(t, "another member's data", startRefused(t, moved), `is of member "n2", not "n3"`)
}

// startRefused starts a server whose start must fail, and returns the error.
func startRefused(t *testing.T, cfg server.Config) error {
	t.Helper()
	ctx, cancel := etcdtest.After(t, etcdtest.Soon)
	defer cancel()
	s, err := server.Start(ctx, cfg)
	if err == nil {
		etcdtest.Stop(t, s)
	}
	return err
}
