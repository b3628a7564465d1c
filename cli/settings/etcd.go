package settings

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/store"
)

// etcdFlags say which etcd to use, and who we are to it.
type etcdFlags struct {
	endpoints          []string
	ca, cert, key      string
	user, passwordFile string
}

func newEtcdFlags(f *flags.Set) *etcdFlags {
	e := &etcdFlags{}
	f.StringSliceVar(&e.endpoints, "etcd", []string{localEtcd}, "host:port of etcd; several separated by commas")
	f.StringVar(&e.ca, "etcd-ca", "", "file with the certificates that etcd's own is checked with; turns TLS on")
	f.StringVar(&e.cert, "etcd-cert", "", "file with the certificate to show to etcd; read again when it changes")
	f.StringVar(&e.key, "etcd-key", "", "file with that certificate's key")
	f.StringVar(&e.user, "etcd-user", "", "user of etcd, where it has users")
	f.StringVar(&e.passwordFile, "etcd-password-file", "", "file with that user's password; readable by its owner only")
	return e
}

// config is what the flags say, with the files read.
func (e *etcdFlags) config() (store.Config, error) {
	c := store.Config{Endpoints: e.endpoints, Username: e.user}
	var bad fault.List
	for _, endpoint := range e.endpoints {
		if err := store.CheckEndpoint(endpoint); err != nil {
			bad.Add(fault.Usage("--etcd %w", err))
		}
	}
	if (e.cert == "") != (e.key == "") {
		bad.Add(fault.Usage("--etcd-cert %q, --etcd-key %q: give both or neither", e.cert, e.key))
	} else if e.cert != "" && e.ca == "" {
		bad.Add(fault.Usage("--etcd-cert %s: give --etcd-ca too: a certificate is shown only to a server that is checked", e.cert))
	}
	var err error
	if (e.user == "") != (e.passwordFile == "") {
		bad.Add(fault.Usage("--etcd-user %q, --etcd-password-file %q: give both or neither", e.user, e.passwordFile))
	} else if e.passwordFile != "" {
		c.Password, err = readPassword("--etcd-password-file", e.passwordFile)
		bad.Add(err)
	}
	if e.ca != "" {
		c.TLS, err = e.tls()
		bad.Add(err)
	}
	return c, bad.Err()
}

func (e *etcdFlags) tls() (*tls.Config, error) {
	text, err := os.ReadFile(e.ca)
	if err != nil {
		return nil, fmt.Errorf("--etcd-ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--etcd-ca %s: there is no certificate in it: give PEM", e.ca)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if e.cert == "" || e.key == "" {
		return c, nil
	}
	if _, err := tls.LoadX509KeyPair(e.cert, e.key); err != nil {
		return nil, fmt.Errorf("--etcd-cert %s, --etcd-key %s: %w", e.cert, e.key, err)
	}
	// Read at each handshake, so that a renewed certificate needs no restart.
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(e.cert, e.key)
		return &pair, err
	}
	return c, nil
}

// readSecret reads a file that only its owner may read.
func readSecret(flag, path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return nil, fmt.Errorf("%s %s: others may read it (mode %04o): chmod 600 it", flag, path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return text, nil
}

// readPassword reads a secret of one line.
func readPassword(flag, path string) (string, error) {
	text, err := readSecret(flag, path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s %s: it is empty: write the password into it", flag, path)
	}
	return secret, nil
}
