package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/server"
)

const (
	// embeddedEtcd instead of addresses: the coordinator runs etcd itself.
	embeddedEtcd      = "embedded"
	defaultClientPort = "2379"
)

// embeddedFlags are what a coordinator is told that runs etcd itself.
type embeddedFlags struct {
	members         []string
	client, dataDir string
	plain           bool
}

func newEmbeddedFlags(f *flags.Set) *embeddedFlags {
	e := &embeddedFlags{}
	f.StringSliceVar(&e.members, "etcd-members", nil,
		"with --etcd embedded: the 1 or 3 servers that run it, the same on each, as name=https://IP:port; --name says which one this is")
	f.StringVar(&e.client, "etcd-client", "",
		"with --etcd embedded: IP:port on which it answers (default: port 2379 of this server's address in --etcd-members, else 127.0.0.1:2379)")
	f.BoolVar(&e.plain, "etcd-plain", false,
		"with --etcd embedded on one server: do without certificates. Every user and every job of this server can then read all jobs' "+
			"specifications and environments, change everything, and have the agent run what they like, as root where it is root")
	f.StringVar(&e.dataDir, "data-dir", "",
		"with --etcd embedded: where its data lie (default: /var/lib/bellows-coordinator, or ~/.local/state/bellows/coordinator)")
	return e
}

// config is what the flags say. name is this server's, as far as it is known.
func (e *embeddedFlags) config(name string) (server.Config, error) {
	c := server.Config{Client: e.client, DataDir: e.dataDir}
	members, err := e.list()
	if err != nil {
		return c, err
	}
	c.Members = members
	if len(members) > 0 && name != "" {
		i := slices.IndexFunc(members, func(m server.Member) bool { return m.Name == name })
		if i < 0 {
			return c, fault.Usage("--etcd-members: this server, %s, is not among %s: set --name to one of them, or add it",
				name, strings.Join(e.members, ","))
		}
		c.Member = name
		c.Client = cmp.Or(c.Client, net.JoinHostPort(hostOf(members[i]), defaultClientPort))
	}
	if len(members) == 0 {
		c.Client = cmp.Or(c.Client, net.JoinHostPort("127.0.0.1", defaultClientPort))
	}
	if c.Client == "" {
		return c, nil
	}
	host, port, err := net.SplitHostPort(c.Client)
	if err != nil || net.ParseIP(host) == nil || port == "" || strings.Trim(port, "0123456789") != "" {
		return c, fault.Usage("--etcd-client %q: use an IP address and a port, as in 10.0.0.1:2379", c.Client)
	}
	if net.ParseIP(host).IsUnspecified() {
		return c, fault.Usage("--etcd-client %s: use one address, under which agents reach this server", c.Client)
	}
	return c, nil
}

// list reads --etcd-members.
func (e *embeddedFlags) list() ([]server.Member, error) {
	var all []server.Member
	for _, text := range e.members {
		name, address, hasAddress := strings.Cut(text, "=")
		if !hasAddress {
			return nil, fault.Usage("--etcd-members %q: use name=https://IP:port, as in n1=https://10.0.0.1:2380", text)
		}
		m := server.Member{Name: name, URL: strings.TrimSuffix(address, "/")}
		if err := CheckMember(m); err != nil {
			return nil, fault.Usage("--etcd-members %w", err)
		}
		for _, other := range all {
			if other.Name == m.Name || other.URL == m.URL {
				return nil, fault.Usage("--etcd-members: %s=%s and %s=%s: give each server its own name and address", other.Name, other.URL, m.Name, m.URL)
			}
		}
		all = append(all, m)
	}
	if n := len(all); n > 0 && n != 1 && n != 3 {
		return nil, fault.Usage("--etcd-members: %d servers: use 1 or 3: more than half of them have to be there, so that 2 survive no loss, and 4 no more than 3", n)
	}
	return all, nil
}

// CheckMember reports what is wrong with the name or the address of a server that runs etcd.
func CheckMember(m server.Member) error {
	if err := cluster.CheckName(m.Name); err != nil {
		return fmt.Errorf("%q: %w", m.Name+"="+m.URL, err)
	}
	u, err := url.Parse(m.URL)
	if err == nil && (u.Scheme != "https" || net.ParseIP(u.Hostname()) == nil || u.Port() == "" || u.Path != "") {
		err = errors.New("wrong form")
	}
	if err != nil {
		return fmt.Errorf("%q: use name=https://IP:port, as in n1=https://10.0.0.1:2380", m.Name+"="+m.URL)
	}
	return nil
}

func hostOf(m server.Member) string {
	u, err := url.Parse(m.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// checkTLS refuses to do without certificates. A program that can write to etcd has the
// agents start any program as any user, and 127.0.0.1 is open to every user
// and every job of the server: only a flag that says so lets them in.
func (e *embeddedFlags) checkTLS(c server.Config, tlsDir string) error {
	how := "every user and program that reaches %s may change everything, and run programs as the agents' user, so it needs certificates: " +
		"bellows tls init once, bellows tls issue " + cmp.Or(c.Member, "NAME") + ", and --tls-dir with the folder that this makes"
	host, _, _ := net.SplitHostPort(c.Client)
	switch ip := net.ParseIP(host); {
	case tlsDir != "" && e.plain:
		return fault.Usage("--etcd-plain: it is for doing without certificates, and --tls-dir %s has some: leave one of them out", tlsDir)
	case tlsDir != "":
		return nil
	case len(c.Members) > 0:
		return fault.Usage("--etcd-members %s: "+how, c.Members[0].URL, "that")
	case ip != nil && !ip.IsLoopback():
		return fault.Usage("--etcd-client %s: "+how, c.Client, "that")
	case !e.plain:
		return fault.Usage("--etcd embedded: "+how+"; to let every user and job of this server in: --etcd-plain", c.Client)
	}
	return nil
}

// memberTLS are the files of a node's folder, as etcd takes them.
func memberTLS(dir string) *server.TLS {
	return &server.TLS{
		Cert: filepath.Join(dir, trust.CertFile), Key: filepath.Join(dir, trust.KeyFile),
		Authority: filepath.Join(dir, trust.AuthorityFile), ServerName: trust.EtcdName,
	}
}

// clientsOf are the addresses at which clients reach all members, if all use the same port.
func clientsOf(c server.Config) []string {
	scheme := ""
	if c.TLS != nil {
		scheme = "https://"
	}
	_, port, _ := net.SplitHostPort(c.Client)
	all := []string{scheme + c.Client}
	for _, m := range c.Members {
		if m.Name != c.Member {
			all = append(all, scheme+net.JoinHostPort(hostOf(m), port))
		}
	}
	return all
}

// unitData is the directory of the coordinator's unit. With DynamicUser= it is a
// link to a private one, which may be gone and is then made anew.
func unitData() string {
	const dir = "/var/lib/bellows-coordinator"
	to, err := os.Readlink(dir)
	switch {
	case err != nil:
		return dir
	case filepath.IsAbs(to):
		return to
	}
	return filepath.Join(filepath.Dir(dir), to)
}

// coordinatorData is where the data lie unless it is said.
func coordinatorData() (string, error) {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // systemd's
		return dir, nil
	}
	if os.Getuid() == 0 {
		return unitData(), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find home: %w: set --data-dir", err)
	}
	return filepath.Join(home, ".local", "state", "bellows", "coordinator"), nil
}

// trusting shows etcd the node's certificate, and takes only one of the cluster's
// for etcd's, where its addresses ask for TLS and nothing else was said.
func trusting(c store.Config, identity *trust.Identity) store.Config {
	secure := func(endpoint string) bool { return strings.HasPrefix(endpoint, "https://") }
	if c.TLS == nil && slices.ContainsFunc(c.Endpoints, secure) {
		c.TLS = identity.Any()
	}
	return c
}
