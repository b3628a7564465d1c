package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
	"github.com/bellows-ml/bellows/record"
)

// submissions takes jobs.
type submissions struct {
	cfg      *Config
	view     *view
	ahead    *foresight
	requests *requests
	limits   *limits
}

func (s *submissions) handleSubmit(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	var req api.SubmitRequest
	if err = decode(r, &req); err != nil {
		writeError(w, err)
		return
	}
	reply, err := s.submit(r.Context(), req, who)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusAccepted, reply)
}

// submit writes the request for the leader. It is idempotent: a client that lost the
// reply sends the same request again and gets the same job.
func (s *submissions) submit(ctx context.Context, req api.SubmitRequest, who cluster.Owner) (api.SubmitReply, error) {
	x, err := s.examine(ctx, req, who)
	if err != nil || x.known {
		return x.reply, err
	}
	id, spec, reply := x.id, x.spec, x.reply
	key := record.RequestKey(s.cfg.Node, req.RequestID)
	err = s.requests.commit(ctx, req.RequestID, record.Txn{
		ID: "submit " + string(id),
		If: []record.Compare{record.Absent(key), record.Absent(record.SpecKey(id))},
		Then: []record.Op{record.Put(key, record.Request{
			Kind: record.SubmitRequest, Job: id, Spec: &spec, Owner: who, At: time.Now().UTC(),
		})},
	})
	if err == nil {
		s.awaitKnown(ctx, id)
	}
	return reply, err
}

// examined is a submission that nothing speaks against.
type examined struct {
	id    cluster.JobID
	spec  cluster.Spec
	reply api.SubmitReply
	known bool // it was submitted before
}

// examine refuses what cannot be submitted, and writes nothing.
func (s *submissions) examine(ctx context.Context, req api.SubmitRequest, who cluster.Owner) (x examined, err error) {
	if err := api.CheckRequestID(req.RequestID); err != nil {
		return examined{}, err
	}
	if err = s.mayHost(ctx, who); err != nil {
		return examined{}, err
	}
	spec := req.Spec.WithDefaults()
	if err = spec.Validate(); err != nil {
		return examined{}, api.Fault(api.Invalid, "%s", record.Cut(err.Error(), maxFaults))
	}
	if d := spec.Deadline; d != nil && !d.After(time.Now()) {
		return examined{}, api.Fault(api.Invalid, "deadline %s: it has passed already by the clock of %s: choose a later one", d.UTC().Format(time.RFC3339), s.cfg.Node)
	}
	x.id, x.spec = jobID(spec.Name, req.RequestID), spec
	if x.reply, x.known, err = s.precheck(spec.Name, x.id, who); err != nil || x.known {
		return x, err
	}
	dropped := false
	if _, err = s.view.read(func(m *record.Mirror) {
		x.reply.Warnings = append(unknownNodes(m, spec.Where), unfit(m, spec)...)
		dropped = spec.NoNewPrivs && !m.Limits.Exists() // no leader that knows either has led
	}); err != nil {
		return examined{}, err
	}
	if dropped {
		return examined{}, api.Fault(api.Unavailable, "no_new_privs: no leader that keeps to it has been seen yet, and an older one would start the job without: "+
			"upgrade the coordinators, or wait until one leads, and submit again")
	}
	if err = s.limits.check(ctx, spec, who); err != nil {
		return examined{}, err
	}
	return x, nil
}

// awaitKnown waits a moment until this agent's mirror has the job, so that the client
// can ask for it at once. The job is accepted either way.
func (s *submissions) awaitKnown(ctx context.Context, id cluster.JobID) {
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	for known := false; ; {
		changed, err := s.view.read(func(m *record.Mirror) { _, known = ownerOf(m, id) })
		if known || err != nil {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// precheck refuses what the leader would refuse, while the caller still
// listens. The leader has the last word: two may ask for one name at once.
func (s *submissions) precheck(name string, id cluster.JobID, who cluster.Owner) (reply api.SubmitReply, known bool, err error) {
	reply = api.SubmitReply{ID: string(id), Name: name}
	_, unread := s.view.read(func(m *record.Mirror) {
		reply.Leader = leaderOf(m)
		owner, exists := ownerOf(m, id)
		if exists {
			known = true
			if owner.UID != who.UID {
				err = api.Fault(api.InUse, "request id: it belongs to a job of %s; make a new one", owner.User)
			}
			return
		}
		if other, used := nameUser(m, name, id); used {
			err = api.Fault(api.InUse, "name %q is in use by job %s: choose another --name, or stop that job first", name, other)
		}
	})
	if unread != nil {
		return api.SubmitReply{}, false, unread
	}
	return reply, known, err
}

// namedNodes is how many of the cluster's nodes a warning names.
const namedNodes = 10

// unknownNodes warns of nodes that a job names and that the cluster does not
// have: mistyped, most likely, though they may yet join.
func unknownNodes(m *record.Mirror, w cluster.Where) (warnings []string) {
	var there []string
	for _, id := range m.NodeIDs() {
		if v := m.Node(id); v.Alive.Exists() || v.Inventory.Exists() {
			there = append(there, string(id))
		}
	}
	known := "it has " + strings.Join(there[:min(len(there), namedNodes)], ", ")
	switch more := len(there) - namedNodes; {
	case len(there) == 0:
		known = "it has none yet"
	case more > 0:
		known += fmt.Sprintf(" and %d more: `bellows nodes` lists them", more)
	}
	for i, n := range slices.Concat(w.Nodes, w.Not) {
		if slices.Contains(there, string(n)) || len(warnings) == namedNodes {
			continue
		}
		consequence := "the job waits for it unless another that it names will do"
		if i >= len(w.Nodes) {
			consequence = "there is nothing to exclude"
		}
		warnings = append(warnings, fmt.Sprintf("the cluster has no node %q, so %s; %s", n, consequence, known))
	}
	return warnings
}

// mayHost reports why this agent cannot run jobs of a user: only root may become
// others, and only those that have a name, by which each node looks up their groups.
func (s *submissions) mayHost(ctx context.Context, who cluster.Owner) error {
	self := ownUID()
	switch {
	case self == who.UID:
		return nil
	case self != 0:
		return api.Fault(api.Forbidden, "this agent runs as %s (uid %d) and can only run that user's jobs; you are %s (uid %d): ask an agent that runs as root, or your own",
			userName(self), self, who.User, who.UID)
	case who.User == unnamed(who.UID):
		if _, err := s.cfg.UserName(ctx, who.UID); err == nil || errors.Is(err, userdb.ErrNoAnswer) || ctx.Err() != nil {
			return api.Fault(api.Unavailable, "the name of uid %d is not known now: %s: try again in a moment", who.UID, userdb.ErrNoAnswer)
		}
		return api.Fault(api.Forbidden, "uid %d has no user name on this node: create the user, with the same uid on every node, or look at the directory service, then submit again", who.UID)
	}
	return nil
}

const suffixBytes = 6 // of a job's identifier, taken from the request's

// jobID is the identifier of the job that a request submits: the same request, the same job.
func jobID(name, requestID string) cluster.JobID {
	return cluster.JobID(name + "-" + requestID[:suffixBytes])
}
