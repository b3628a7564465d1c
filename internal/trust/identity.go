package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
)

// scheme is of the name that a certificate carries: bellows://node/<id>.
const (
	scheme   = "bellows"
	nodeHost = "node"
)

func identityOf(node cluster.NodeID) *url.URL {
	return &url.URL{Scheme: scheme, Host: nodeHost, Path: "/" + string(node)}
}

// ErrPasses is in errors that pass once the clock is set, or a renewed certificate
// is in place: the one that is there is not valid now, or its files are just being replaced.
var ErrPasses = errors.New("certificate that may be good later")

// passes is ErrPasses, and reads as what is wrong.
type passes struct{ error }

// Is implements what errors.Is asks for.
func (passes) Is(target error) bool { return target == ErrPasses }

// Unwrap returns what is wrong.
func (e passes) Unwrap() error { return e.error }

// nodeOf is the node that a certificate is for.
func nodeOf(cert *x509.Certificate) (cluster.NodeID, error) {
	for _, u := range cert.URIs {
		if u.Scheme == scheme && u.Host == nodeHost {
			id := strings.TrimPrefix(u.Path, "/")
			return cluster.NodeID(id), cluster.CheckName(id)
		}
	}
	return "", fmt.Errorf("the certificate of %q is for no node: issue it with bellows tls issue", cert.Subject.CommonName)
}

// An Identity is a node's folder of certificates. It is safe for concurrent use.
type Identity struct {
	dir  string
	node cluster.NodeID
	now  func() time.Time

	mu    sync.Mutex
	stamp string // of the files as they were last read
	pair  tls.Certificate
	roots *x509.CertPool
}

// Load reads a node's folder. The certificate has to be of that node and valid now.
func Load(dir string, node cluster.NodeID) (*Identity, error) {
	return load(dir, node, time.Now)
}

func load(dir string, node cluster.NodeID, now func() time.Time) (*Identity, error) {
	i := &Identity{dir: dir, node: node, now: now}
	pair, _, err := i.current()
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others may read it (mode %04o): chmod 600 it", filepath.Join(dir, KeyFile), info.Mode().Perm())
	}
	if shown, err := nodeOf(pair.Leaf); err == nil && shown != node {
		return nil, fmt.Errorf("%s: it is of node %s, and this is node %s: bellows tls issue %s makes the right one",
			filepath.Join(dir, CertFile), shown, node, node)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} { // it is shown as both
		if err := i.verify([]*x509.Certificate{pair.Leaf}, node, usage); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, CertFile), err)
		}
	}
	return i, nil
}

// Node is whose identity it is.
func (i *Identity) Node() cluster.NodeID { return i.node }

// Ends is when the certificate that is in force now ends; zero = unknown.
func (i *Identity) Ends() time.Time {
	pair, _, err := i.current()
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// current returns what the files hold now. Files that are being replaced and do
// not fit each other leave what was read before in force.
func (i *Identity) current() (tls.Certificate, *x509.CertPool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var stamps [3]string
	for n, name := range []string{CertFile, KeyFile, AuthorityFile} {
		info, err := os.Stat(filepath.Join(i.dir, name))
		if err != nil {
			return i.kept(fmt.Errorf("read certificates of this node: %w%s", err, i.remedy(err)))
		}
		stamps[n] = fmt.Sprint(info.ModTime().UnixNano(), info.Size())
	}
	stamp := strings.Join(stamps[:], " ")
	if stamp == i.stamp {
		return i.pair, i.roots, nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(i.dir, CertFile), filepath.Join(i.dir, KeyFile))
	if err != nil {
		err = fmt.Errorf("read certificate of this node: %w%s", err, i.remedy(err))
		if !errors.Is(err, fs.ErrPermission) {
			err = passes{err}
		}
		return i.kept(err)
	}
	text, err := os.ReadFile(filepath.Join(i.dir, AuthorityFile))
	if err != nil {
		return i.kept(fmt.Errorf("read authority: %w", err))
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return i.kept(fmt.Errorf("%s: there is no certificate in it", filepath.Join(i.dir, AuthorityFile)))
	}
	i.stamp, i.pair, i.roots = stamp, pair, roots
	return pair, roots, nil
}

// remedy is what to do about files that cannot be read.
func (i *Identity) remedy(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf(": bellows tls issue %s makes them", i.node)
	case !errors.Is(err, fs.ErrPermission):
		return ""
	}
	name, err := userdb.Name(context.Background(), uint32(os.Getuid()))
	if err != nil {
		name = strconv.Itoa(os.Getuid())
	}
	return fmt.Sprintf(": they are not for user %s to read: chown -R %s %s", name, name, i.dir)
}

func (i *Identity) kept(err error) (tls.Certificate, *x509.CertPool, error) {
	if i.stamp != "" {
		return i.pair, i.roots, nil
	}
	return tls.Certificate{}, nil, err
}

// Server is how this node answers: to nodes of its cluster only. Peer names them.
func (i *Identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, _, err := i.current()
			return &pair, err
		},
		// Verified below, against the authorities as they are then.
		ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: func(s tls.ConnectionState) error {
			return i.verify(s.PeerCertificates, "", x509.ExtKeyUsageClientAuth)
		},
	}
}

// Client is how this node asks another one, which has to be that one.
func (i *Identity) Client(node cluster.NodeID) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, _, err := i.current()
			return &pair, err
		},
		// Names and addresses do not count, nodes do: verified below, whole.
		InsecureSkipVerify: true, //nolint:gosec // see above
		VerifyConnection: func(s tls.ConnectionState) error {
			return i.verify(s.PeerCertificates, node, x509.ExtKeyUsageServerAuth)
		},
	}
}

// Any is how this node asks where any node of the cluster may answer, as an
// embedded etcd does, which runs on some.
func (i *Identity) Any() *tls.Config {
	c := i.Client("")
	c.NextProtos = nil // the caller's
	return c
}

// CheckEtcd refuses a certificate with which no embedded etcd would be recognised.
func (i *Identity) CheckEtcd() error {
	pair, _, err := i.current()
	if err != nil {
		return err
	}
	if err := pair.Leaf.VerifyHostname(EtcdName); err != nil {
		return fmt.Errorf("%s was issued by an older version, and an embedded etcd needs the name %s in it: bellows tls renew %s",
			filepath.Join(i.dir, CertFile), EtcdName, i.node)
	}
	return nil
}

// Peer is the node at the other end of a connection to Server.
func Peer(s *tls.ConnectionState) (cluster.NodeID, error) {
	if s == nil || len(s.PeerCertificates) == 0 {
		return "", errors.New("the other side has shown no certificate")
	}
	return nodeOf(s.PeerCertificates[0])
}

// verify checks a certificate that was shown as a client's or a server's; node = ""
// takes any node of the cluster.
func (i *Identity) verify(chain []*x509.Certificate, node cluster.NodeID, as x509.ExtKeyUsage) error {
	if len(chain) == 0 {
		return errors.New("the other side has shown no certificate")
	}
	_, roots, err := i.current()
	if err != nil {
		return err
	}
	cert, now := chain[0], i.now()
	shown, err := nodeOf(cert)
	if err != nil {
		return err
	}
	_, err = cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{as}})
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.Before(cert.NotBefore):
		return passes{fmt.Errorf("the certificate of node %s is valid from %s on, and the clock here says %s: correct the clock that is wrong",
			shown, cert.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return passes{fmt.Errorf("the certificate of node %s ended %s, and the clock here says %s: bellows tls renew %s, or correct the clock",
			shown, cert.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), shown)}
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of node %s is from authority %q, which %s does not hold: issue it from this cluster's authority",
			shown, cert.Issuer.CommonName, filepath.Join(i.dir, AuthorityFile))
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		role := map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server", x509.ExtKeyUsageClientAuth: "client"}[as]
		return fmt.Errorf("the certificate of node %s is not for a %s (extended key usage): issue it with bellows tls issue %s", shown, role, shown)
	case err != nil:
		return fmt.Errorf("the certificate of node %s: %w", shown, err)
	case node != "" && shown != node:
		return fmt.Errorf("asked node %s, and the certificate shown is of node %s: is the address another node's, or were certificates swapped?", node, shown)
	}
	return nil
}
