package trust

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
)

// The files of an authority's folder, and of a node's.
const (
	AuthorityFile    = "ca.pem"     // public; the newest authority first
	AuthorityKeyFile = "ca-key.pem" // of the newest; stays where certificates are issued
	CertFile         = "node.pem"
	KeyFile          = "node-key.pem"
)

// EtcdName is the one name that the certificates of all nodes carry besides
// their own: members of an embedded etcd check names as TLS has them, and take
// each other, wherever they are, for nodes of the cluster by this one.
const EtcdName = "etcd.bellows"

const (
	// authorityLife is how long an authority may sign, and its certificate verifies.
	authorityLife = 10 * 365 * 24 * time.Hour
	// backdate forgives a clock that is slow by this much.
	backdate = 10 * time.Minute
	// maxPEM bounds what is read of a certificate or key file.
	maxPEM = 1 << 20
)

// DefaultLife is how long a node's certificate is valid.
const DefaultLife = 365 * 24 * time.Hour

// Init makes an authority in a folder, which must not hold one. With rotate it
// adds a new one in front of those there: certificates of the old ones stay good
// until AuthorityFile is without them.
func Init(dir, name string, rotate bool, now time.Time) error {
	old, err := os.ReadFile(filepath.Join(dir, AuthorityFile))
	switch {
	case err == nil && !rotate:
		return fmt.Errorf("%s: there is an authority already: choose another folder, or --rotate to put a new one before it", dir)
	case errors.Is(err, fs.ErrNotExist) && rotate:
		return fmt.Errorf("%s: there is no authority to rotate: leave --rotate out to make the first", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key of authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Bellows " + name},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make authority: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of authority: %w", err)
	}
	// The key first: an authority without its key could issue nothing and would have to be undone by hand.
	if err := writeKey(filepath.Join(dir, AuthorityKeyFile), key); err != nil {
		return err
	}
	return replace(filepath.Join(dir, AuthorityFile), append(encode("CERTIFICATE", der), old...), 0o644)
}

// Request is what a node's certificate is to be.
type Request struct {
	Authority string // folder
	Folder    string // of the node's files
	Node      cluster.NodeID
	Life      time.Duration
	Renew     bool // Folder holds one of that node already
}

// Issue makes a key and a certificate for a node, signed by the newest authority,
// and puts them with the authorities into the node's folder, which must not hold
// any unless they are renewed: then they have to be of the same node.
func Issue(r Request, now time.Time) error {
	authority, key, err := readAuthority(r.Authority)
	if err != nil {
		return err
	}
	if now.Add(r.Life).After(authority.NotAfter) {
		return fmt.Errorf("the authority in %s is valid until %s only: issue for a shorter time, or rotate it first",
			r.Authority, authority.NotAfter.Format(time.DateOnly))
	}
	switch had, missing := nodeIn(r.Folder); {
	case missing != nil && !errors.Is(missing, fs.ErrNotExist):
		return missing
	case missing == nil && !r.Renew:
		return fmt.Errorf("%s: there is a certificate of node %s already: renew it, or choose another folder", r.Folder, had)
	case missing == nil && had != r.Node:
		return fmt.Errorf("%s: the certificate there is of node %s, not of %s: choose another folder", r.Folder, had, r.Node)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key of node %s: %w", r.Node, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: string(r.Node)}, URIs: []*url.URL{identityOf(r.Node)},
		DNSNames:  []string{EtcdName},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(r.Life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, own.Public(), key)
	if err != nil {
		return fmt.Errorf("sign certificate of node %s: %w", r.Node, err)
	}
	authorities, err := os.ReadFile(filepath.Join(r.Authority, AuthorityFile))
	if err != nil {
		return fmt.Errorf("read authority: %w", err)
	}
	if err := os.MkdirAll(r.Folder, 0o700); err != nil {
		return fmt.Errorf("make folder of node %s: %w", r.Node, err)
	}
	// One file with key and certificate would be swapped at once; two are read as a
	// pair that fits, or once more.
	if err := writeKey(filepath.Join(r.Folder, KeyFile), own); err != nil {
		return err
	}
	return errors.Join(
		replace(filepath.Join(r.Folder, CertFile), encode("CERTIFICATE", der), 0o644),
		replace(filepath.Join(r.Folder, AuthorityFile), authorities, 0o644))
}

// Show describes the certificate in a node's folder.
func Show(dir string) (node cluster.NodeID, authority string, until time.Time, err error) {
	cert, err := readCert(filepath.Join(dir, CertFile))
	if err != nil {
		return "", "", time.Time{}, err
	}
	node, err = nodeOf(cert)
	return node, cert.Issuer.CommonName, cert.NotAfter, err
}

func nodeIn(dir string) (cluster.NodeID, error) {
	cert, err := readCert(filepath.Join(dir, CertFile))
	if err != nil {
		return "", err
	}
	return nodeOf(cert)
}

func readAuthority(dir string) (*x509.Certificate, crypto.Signer, error) {
	cert, err := readCert(filepath.Join(dir, AuthorityFile))
	if err != nil {
		return nil, nil, fmt.Errorf("read authority: %w: bellows tls init makes one", err)
	}
	text, err := readPEM(filepath.Join(dir, AuthorityKeyFile))
	if err != nil {
		return nil, nil, fmt.Errorf("read authority's key: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(text)
	if err != nil {
		return nil, nil, fmt.Errorf("read authority's key: %s: %w", filepath.Join(dir, AuthorityKeyFile), err)
	}
	key, signs := parsed.(crypto.Signer)
	public, ok := cert.PublicKey.(*ecdsa.PublicKey)
	if !signs || !ok || !public.Equal(key.Public()) {
		return nil, nil, fmt.Errorf("read authority: %s is not the key of the first certificate in %s", AuthorityKeyFile, AuthorityFile)
	}
	return cert, key, nil
}

// readCert reads the first certificate of a file.
func readCert(path string) (*x509.Certificate, error) {
	der, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}

func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text[:min(len(text), maxPEM)])
	if block == nil {
		return nil, fmt.Errorf("%s: it is not PEM", path)
	}
	return block.Bytes, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	return replace(path, encode("PRIVATE KEY", der), 0o600)
}

// replace puts a file in place whole, durable, and with its mode from the beginning.
func replace(path string, text []byte, mode fs.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := durable.Write(path, text, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// serial is a number that no other certificate has.
func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}
