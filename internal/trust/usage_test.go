package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

// usable signs a certificate of a node that may be used in one way alone, as no
// version of Bellows issues it and an authority's owner may.
func usable(t *testing.T, ca string, node cluster.NodeID, as x509.ExtKeyUsage) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	authority, signer, err := readAuthority(ca)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: string(node)}, URIs: []*url.URL{identityOf(node)},
		NotBefore: epoch.Add(-backdate), NotAfter: epoch.Add(DefaultLife), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{as},
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, authority, key.Public(), signer); err != nil {
		t.Fatal(err)
	}
	return der, key
}

// A certificate that is for servers only is no client's, and one that is for clients
// only is no server's; a node that would show either does not start.
func TestCertificatesAreUsedForWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	ca := authority(t)
	n2 := identity(t, issue(t, ca, "n2", DefaultLife), "n2", epoch)

	der, key := usable(t, ca, "n1", x509.ExtKeyUsageServerAuth)
	pair := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	_, err, _ := talk(t, n2.Server(), &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}) //nolint:gosec // the client under suspicion
	says(t, "a server's certificate, as a client's", err, "node n1 is not for a client", "bellows tls issue n1")

	der, key = usable(t, ca, "n1", x509.ExtKeyUsageClientAuth)
	pair = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	_, _, err = talk(t, &tls.Config{Certificates: []tls.Certificate{pair}}, n2.Client("n1")) //nolint:gosec // the server under suspicion
	says(t, "a client's certificate, as a server's", err, "node n1 is not for a server", "bellows tls issue n1")

	for as, want := range map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "is not for a client", x509.ExtKeyUsageClientAuth: "is not for a server"} {
		dir := issue(t, ca, "n1", DefaultLife)
		der, key = usable(t, ca, "n1", as)
		if err := writeKey(filepath.Join(dir, KeyFile), key); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, CertFile), encode("CERTIFICATE", der), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := load(dir, "n1", n2.now)
		says(t, "its own certificate", err, want)
	}
}
