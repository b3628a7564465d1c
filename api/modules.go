package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// modulesWithin bounds how long a node asks for names. Without them it prepares the
	// generation all the same, so a peer that hangs costs no more than this.
	modulesWithin = 5 * time.Second
	// modulesAsked bounds how many nodes are asked in turn: all have much the same names.
	modulesAsked = 3
)

// moduleNames hands from node to node which modules a job's workers import.
type moduleNames struct {
	cfg    *Config
	view   *view
	agents *agents
}

// handleNames answers with the names that this node has of a job, as its shim wrote them.
func (n *moduleNames) handleNames(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	job := cluster.JobID(r.URL.Query().Get("job"))
	if err == nil {
		err = n.view.mayReadLogs(job, who)
	}
	var text []byte
	if err == nil {
		text, err = n.read(job)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // an error means that the caller has gone
}

// read returns the file of a job that exists, which the caller has checked: its identifier is no path.
func (n *moduleNames) read(job cluster.JobID) ([]byte, error) {
	f, err := os.Open(filepath.Join(n.cfg.ModulesDir, string(job)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault(NotFound, "node %s has no names of modules of job %s", n.cfg.Node, job)
	}
	if err != nil {
		return nil, fmt.Errorf("read names of modules: %w", err)
	}
	defer f.Close()
	return readModules(f)
}

func readModules(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, record.MaxModules+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read names of modules: %w", err)
	case len(text) > record.MaxModules:
		return nil, fmt.Errorf("read names of modules: they are longer than %d MiB", record.MaxModules>>20)
	}
	return text, nil
}

// Modules asks nodes of a job's newest world, in turn, for the names of the modules that its
// workers import. What they answer is theirs, and to be checked.
func (s *Server) Modules(ctx context.Context, job cluster.JobID) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, modulesWithin)
	defer cancel()
	var owner cluster.Owner
	var peers []part
	if _, err := s.view.read(func(m *record.Mirror) { owner, peers = s.names.peers(m, job) }); err != nil {
		return nil, err
	}
	var err error = fault(NotFound, "no other node has workers of job %s", job)
	for _, p := range peers {
		text, errAsk := s.names.ask(ctx, p, job, owner)
		if errAsk == nil {
			return text, nil
		}
		err = fmt.Errorf("ask node %s for names of modules: %w", p.node, errAsk)
	}
	return nil, err
}

// peers are the other nodes of the newest world that are in the cluster, those with the lowest ranks.
func (n *moduleNames) peers(m *record.Mirror, job cluster.JobID) (owner cluster.Owner, peers []part) {
	j := m.Job(job)
	for _, member := range j.Generation(j.State.Value.Generation).Plan.Value.World.Members {
		alive := m.Node(member.Node).Alive
		if member.Node != n.cfg.Node && alive.Exists() && len(peers) < modulesAsked {
			peers = append(peers, part{member.Node, alive.Value.API})
		}
	}
	return j.Spec.Value.Owner, peers
}

func (n *moduleNames) ask(ctx context.Context, p part, job cluster.JobID, owner cluster.Owner) ([]byte, error) {
	c, err := n.agents.at(p.node, p.api)
	if err != nil {
		return nil, err
	}
	c.user = formatUser(owner)
	resp, err := c.do(ctx, http.MethodGet, "/v1/node/modules?"+url.Values{"job": {string(job)}}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readModules(resp.Body)
}
