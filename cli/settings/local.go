package settings

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/service"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/store"
)

// Local is the settings of this server's coordinator, for a command that finds etcd as that
// coordinator does.
type Local struct {
	all   *flags.Set
	flags *Coordinator
}

// NewLocal declares those settings that say where etcd is, and more, as flags of a command.
func NewLocal(own *flags.Set, more ...string) *Local {
	all := newSet("coordinator")
	s := &Local{all, NewCoordinator(all)}
	for _, name := range append([]string{
		ConfigFlag, "name", "tls-dir", "etcd", "etcd-ca", "etcd-cert", "etcd-key", "etcd-user", "etcd-password-file", "etcd-members", "etcd-client", "etcd-plain",
	}, more...) {
		f := *all.Lookup(name)
		f.Hidden = strings.HasPrefix(name, "etcd-") && len(more) == 0
		own.AddFlag(&f)
	}
	return s
}

// Fill takes what the command line has given from the command's own flags, and the rest from the
// environment and the file.
func (s *Local) Fill(own *flags.Set) error {
	own.VisitAll(func(f *flags.Flag) {
		if same := s.all.Lookup(f.Name); same != nil {
			same.Changed = f.Changed
		}
	})
	return Fill("coordinator", s.all)
}

// Read returns the candidate that the coordinator of this server is.
func (s *Local) Read() (service.Candidate, error) {
	if s.flags.tlsDir != "" && s.flags.name == "" {
		// The certificate names this server.
		node, _, _, err := trust.Show(s.flags.tlsDir)
		if err != nil {
			return service.Candidate{}, err
		}
		s.flags.name = string(node)
	}
	k, err := s.flags.config(service.JSONLogger(service.Messages(os.Stderr, os.Stderr)))
	if err != nil {
		return k, err
	}
	if k.Lead.Node == "" {
		if k.Lead.Node, err = os.Hostname(); err != nil {
			return k, fmt.Errorf("find host name: %w: set --name", err)
		}
	}
	if err := s.flags.identify(&k); err != nil {
		return k, err
	}
	if k.Member != nil {
		k.Etcd.Endpoints = clientsOf(*k.Member)
	}
	k.Etcd.DialTimeout = store.DefaultDialTimeout
	return k, nil
}

// With opens etcd for a function.
func (s *Local) With(ctx context.Context, adjust func(*store.Config), do func(*store.Store) error) error {
	k, err := s.Read()
	if err != nil {
		return err
	}
	if adjust != nil {
		adjust(&k.Etcd)
	}
	st, err := store.Open(ctx, k.Etcd)
	if err != nil {
		return err
	}
	defer st.Close() //nolint:errcheck // what was asked for has been answered
	return do(st)
}
