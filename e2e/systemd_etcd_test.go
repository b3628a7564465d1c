package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/trust"
)

// The coordinator's unit runs an etcd with certificates, as a user of its own who
// may do little, and keeps its data when it is killed and upgraded.
func TestTheCoordinatorsUnitRunsEtcd(t *testing.T) {
	if _, err := os.Stat("/lib/systemd/systemd"); os.Geteuid() != 0 || err != nil {
		t.Skip("a systemd of the test's own needs systemd installed, and root for its namespaces")
	}
	t.Parallel()
	f := emptyFleet(t, config{})
	m := f.bootMachine()
	install, err := filepath.Abs("../scripts/install")
	if err != nil {
		t.Fatal(err)
	}
	m.run(install, "--binary", binary, "--coordinator") // with a user, and before there are settings
	settings := filepath.Join(f.dir, "coordinator.yaml")
	text := fmt.Sprintf("etcd: embedded\nname: c1\ncluster: lab\netcd-client: %s:2379\ntls-dir: /etc/bellows/tls\n", f.server("c1"))
	if err = os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m.run("install", "-m", "644", settings, "/etc/bellows/coordinator.yaml")
	m.run("cp", "-r", f.identity("c1"), "/etc/bellows/tls")
	m.run("chown", "-R", "bellows-coordinator", "/etc/bellows/tls")
	m.run("systemctl", "restart", "bellows-coordinator.service")
	property := func(name string) string {
		return m.run("systemctl", "show", "--value", "--property", name, "bellows-coordinator.service")
	}
	active := func(what string) {
		t.Helper()
		f.eventually("the coordinator to be active after "+what, func() bool { return property("ActiveState") == "active" })
	}
	active("its start")

	identity, err := trust.Load(f.identity("watcher"), "watcher")
	if err != nil {
		t.Fatal(err)
	}
	f.endpoint = "https://" + f.server("c1") + ":2379"
	f.store, err = store.Open(t.Context(), store.Config{Endpoints: []string{f.endpoint}, TLS: identity.Any(), DialTimeout: patience, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if meta, err := f.store.CheckMeta(t.Context(), "lab"); err != nil || meta.Format != record.Format {
		t.Errorf("the cluster: %+v, %v", meta, err)
	}
	if user := m.run("stat", "-c", "%U", "/proc/"+property("MainPID")); user != "bellows-coordinator" {
		t.Errorf("it runs as %s", user)
	}
	for _, path := range []string{"/var/lib/bellows-coordinator/", "/var/lib/bellows-coordinator/etcd/member"} {
		if got := m.run("stat", "-c", "%a %U", path); got != "700 bellows-coordinator" {
			t.Errorf("%s is %s: it holds what jobs' environments carry", path, got)
		}
	}
	f.startAgent(1, "--tls-dir", f.identity("n1"))
	f.await(patience, "a leader and a node", func(r *record.Mirror) bool { return len(r.Leaders) > 0 && r.Node("n1").Alive.Exists() })

	for _, again := range []struct {
		what string
		args []string
	}{
		{"kill -9", []string{"systemctl", "kill", "--kill-whom=main", "--signal=KILL", "bellows-coordinator.service"}},
		{"a restart", []string{"systemctl", "restart", "bellows-coordinator.service"}},
		{"an upgrade", []string{install, "--binary", binary}},
	} {
		main := property("MainPID")
		m.run(again.args...)
		f.eventually("another process after "+again.what, func() bool { now := property("MainPID"); return now != main && now != "0" })
		active(again.what)
		f.eventually("the node's record after "+again.what, func() bool {
			kv, exists, err := f.store.Get(t.Context(), record.InventoryKey("n1"))
			return err == nil && exists && len(kv.Value) > 0
		})
	}
	if out := m.run("bellows", "etcd", "members"); !containsAll(out, f.endpoint, "leader") {
		t.Errorf("on the server itself, without a flag: %s", out)
	}
	if log := m.run("journalctl", "--no-pager", "-o", "cat", "-u", "bellows-coordinator"); strings.Contains(log, "panic") {
		t.Errorf("its log:\n%s", log)
	}
}
