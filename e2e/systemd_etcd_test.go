package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// The coordinator's unit runs an etcd with certificates, as a user of its own who
// may do little, and keeps its data when it is killed and upgraded.
func TestTheCoordinatorsUnitRunsEtcd(t *testing.T) {
	needsSystemd(t)
	t.Parallel()
	f := emptyFleet(t, config{})
	m := f.bootMachine()
	install, err := filepath.Abs("../scripts/install")
	if err != nil {
		t.Fatal(err)
	}
	m.run(install, "--binary", binary)
	m.run("cp", "-r", f.identity("c1"), "/etc/bellows/tls")
	settings := filepath.Join(f.dir, "coordinator.yaml")
	text := fmt.Sprintf("etcd: embedded\nname: c1\ncluster: lab\netcd-client: %s:2379\ntls-dir: /etc/bellows/tls\n", f.server("c1"))
	if err = os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	property := func(name string) string {
		return m.run("systemctl", "show", "--value", "--property", name, "bellows-coordinator.service")
	}
	active := func(what string) {
		t.Helper()
		f.eventually("the coordinator to be active after "+what, func() bool { return property("ActiveState") == "active" })
	}
	// A user that systemd makes for the time the unit runs gives way to a lasting
	// one, to whom certificates belong.
	m.run("userdel", "bellows-coordinator")
	m.run("sh", "-c", "echo etcd: 127.0.0.1:1 >/etc/bellows/coordinator.yaml") // where it waits
	m.run("systemctl", "start", "--no-block", "bellows-coordinator.service")
	passing := ""
	f.eventually("a passing user", func() bool {
		passing = property("UID")
		return len(passing) == len("61184") && strings.Trim(passing, "0123456789") == ""
	})
	m.run("chown", "-R", passing, "/etc/bellows/tls")
	m.run(install, "--binary", binary, "--coordinator")
	m.run("grep", "-q", "^bellows-coordinator:", "/etc/passwd")
	if owner := m.run("stat", "-c", "%U", "/etc/bellows/tls/node-key.pem"); owner != "bellows-coordinator" {
		t.Errorf("the key belongs to %s once there is a lasting user", owner)
	}
	m.run("install", "-m", "644", settings, "/etc/bellows/coordinator.yaml")
	m.run("systemctl", "restart", "bellows-coordinator.service")
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
	f.await("a leader and a node", func(r *record.Mirror) bool { return len(r.Leaders) > 0 && r.Node("n1").Alive.Exists() })

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
	f.restored(m, active)
	f.unfit(m, property)
	f.early(m, active)
	f.notUnderEtcd(m, active)
	if log := m.run("journalctl", "--no-pager", "-o", "cat", "-u", "bellows-coordinator"); strings.Contains(log, "panic") {
		t.Errorf("its log:\n%s", log)
	}
}

// restored restores a snapshot as root, in place of the data and where there is nothing at all.
func (f *fleet) restored(m *machine, active func(string)) {
	f.t.Helper()
	m.run("bellows", "etcd", "snapshot", "/var/tmp/snapshot")
	for _, loss := range [][]string{
		{"mv", "/var/lib/bellows-coordinator/etcd", "/var/tmp/etcd.old"},
		{"rm", "-r", "/var/lib/private/bellows-coordinator"}, // to which a link is left
		{"rm", "-r", "/var/lib/private/bellows-coordinator", "/var/lib/bellows-coordinator"},
	} {
		m.run("systemctl", "stop", "bellows-coordinator.service")
		m.run(loss...)
		m.run("bellows", "etcd", "restore", "/var/tmp/snapshot")
		m.run("systemctl", "start", "bellows-coordinator.service")
		active("a restore after " + strings.Join(loss, " "))
		f.eventually("the node's record after a restore", func() bool {
			kv, exists, err := f.store.Get(f.t.Context(), record.InventoryKey("n1"))
			return err == nil && exists && len(kv.Value) > 0
		})
		if strangers := m.run("find", "/var/lib/private/bellows-coordinator", "!", "-user", "bellows-coordinator"); strangers != "" {
			f.t.Errorf("after a restore these are not the coordinator's: %s", strangers)
		}
	}
}

// early gives the coordinator a certificate that is not valid yet, as after a
// boot without a clock: it is up by itself once that has passed.
func (f *fleet) early(m *machine, active func(string)) {
	f.t.Helper()
	folder := f.issueAt("early", "c1", time.Now().Add(2*time.Hour), time.Hour)
	active("the settings are right again")
	m.run("sh", "-c", "cp -r /etc/bellows/tls /etc/bellows/tls.right; cp "+folder+"/* /etc/bellows/tls/; chown -R bellows-coordinator /etc/bellows/tls*")
	m.run("systemctl", "restart", "--no-block", "bellows-coordinator.service")
	f.eventually("it to say that the clock is wrong", func() bool {
		return strings.Contains(m.run("journalctl", "--no-pager", "-o", "cat", "-p", "err", "-u", "bellows-coordinator"), "correct the clock that is wrong")
	})
	m.run("sh", "-c", "cp /etc/bellows/tls.right/* /etc/bellows/tls/")
	active("its certificate is valid")
}

// unfit gives the coordinator settings that only a person can mend: it says so and stays down.
func (f *fleet) unfit(m *machine, property func(string) string) {
	f.t.Helper()
	for _, wrong := range []string{"cluster: another", "name: c2", "interval: never"} {
		m.run("sed", "-i.right", "/^"+strings.SplitAfter(wrong, ":")[0]+"/d;$a "+wrong, "/etc/bellows/coordinator.yaml")
		_, _ = m.try("systemctl", "restart", "bellows-coordinator.service") // it fails
		f.eventually("the unit to give up with "+wrong, func() bool { return property("ActiveState") == "failed" })
		if status := property("ExecMainStatus"); status != "2" {
			f.t.Errorf("with %s it ended with status %s", wrong, status)
		}
		m.run("mv", "/etc/bellows/coordinator.yaml.right", "/etc/bellows/coordinator.yaml")
	}
	m.run("systemctl", "start", "bellows-coordinator.service")
}

// notUnderEtcd: etcd is not taken away from its cluster by mistake.
func (f *fleet) notUnderEtcd(m *machine, active func(string)) {
	f.t.Helper()
	uninstall, err := filepath.Abs("../scripts/uninstall")
	if err != nil {
		f.t.Fatal(err)
	}
	active("its settings were mended")
	if out, err := m.try(uninstall); err == nil || !containsAll(out, "runs etcd", "bellows etcd remove") {
		f.t.Errorf("with etcd running: %v, %s", err, out)
	}
	active("it was not uninstalled")
	m.run("systemctl", "stop", "bellows-coordinator.service")
	m.run(uninstall)
	m.run("test", "-d", "/var/lib/bellows-coordinator/etcd") // only a purge deletes it
}
