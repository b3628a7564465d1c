package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/store"
)

// A member without data either founds a cluster or joins one, and must not confuse
// the two: a member that has lost its disk and founds its cluster again would vote
// in the others' log without having it. So it asks all other members first, and
// founds only if all of them answer that they have no data either.
//
//	data ──► start
//	none ──► ask the others ──► all have no data ─────────────► found
//	             ▲              one has a cluster that lists ─► join
//	             │              this member as not started
//	             │              one lists it as started, or ──► refuse
//	             │              does not list it
//	             └───────────── one does not answer

const (
	// waitingPath is answered by a member without data; etcd serves nothing there.
	waitingPath = "/bellows/waiting"
	membersPath = "/members"
	// askEvery is how often the other members are asked, logEvery how often a member without an answer is logged.
	askEvery = 500 * time.Millisecond
	logEvery = 15 * time.Second
	// askTimeout bounds one question to one member.
	askTimeout = 2 * time.Second
	// maxAnswer bounds an answer: etcd has a handful of members.
	maxAnswer = 1 << 20
	minTLS    = tls.VersionTLS13
)

// beginning is how a member without data starts; zero: it has data, or is single.
type beginning struct {
	members []Member
	joins   bool // the members exist already
}

// waiting is the answer of a member that has no data.
type waiting struct {
	Cluster string   `json:"cluster"`
	Members []Member `json:"members"`
}

// peerMember is a member in the list of another member's etcd.
type peerMember struct {
	ID         uint64   `json:"id"`
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"` // empty = it has never started
}

// peerAnswer is one member's answer: that it waits, or the members of its cluster.
type peerAnswer struct {
	from    Member
	waits   *waiting
	members []peerMember
	err     error // it did not answer
}

// begin decides how this member starts. It waits for the other members without a limit.
func (c Config) begin(ctx context.Context) (beginning, error) {
	own, ok := c.own()
	if !ok || len(c.Members) == 1 || c.hasData() {
		return beginning{}, nil
	}
	peers, err := c.peers()
	if err != nil {
		return beginning{}, err
	}
	stop, err := c.wait(own)
	if err != nil {
		return beginning{}, err
	}
	defer stop()
	var logged time.Time
	var before []string
	for {
		answers := peers.ask(ctx, c.others())
		b, missing, err := c.judge(answers)
		switch {
		case ctx.Err() != nil:
			return b, ctx.Err()
		case err != nil || len(missing) == 0:
			return b, err
		case time.Since(logged) > logEvery, !slices.Equal(missing, before) && time.Since(logged) > askTimeout:
			c.Log.Warn().Strs("missing", missing).Msg("waiting for the other members, to found a cluster with them or to join it")
			logged, before = time.Now(), missing
		}
		select {
		case <-ctx.Done():
		case <-time.After(askEvery):
		}
	}
}

// hasData reports whether there is a write-ahead log, without which etcd starts
// empty. A directory that cannot be read counts as data.
func (c Config) hasData() bool {
	entries, err := os.ReadDir(filepath.Join(c.DataDir, etcdDir, "member", "wal"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".wal" })
}

// hasDatabase reports whether there is a database, perhaps without a log.
func (c Config) hasDatabase() bool {
	_, err := os.Lstat(filepath.Join(c.DataDir, etcdDir, "member", "snap", "db"))
	return !errors.Is(err, fs.ErrNotExist)
}

func (c Config) others() []Member {
	return slices.DeleteFunc(slices.Clone(c.Members), func(m Member) bool { return m.Name == c.Member })
}

// judge decides how to start, or returns the members that have yet to answer. One
// member may not know yet of an added member that another one lists.
func (c Config) judge(answers []peerAnswer) (b beginning, missing []string, err error) {
	var refusal error
	for _, a := range answers {
		switch {
		case a.err != nil:
			missing = append(missing, fmt.Sprintf("%s at %s: %v", a.from.Name, a.from.URL, a.err))
		case a.waits != nil:
			// It is unknown which of the two is misconfigured: wait until they agree.
			if other := c.agrees(a); other != nil {
				missing = append(missing, other.Error())
			}
		default:
			if b, err = c.placeIn(a); err == nil {
				return b, nil, nil
			}
			if refusal == nil {
				refusal = err
			}
		}
	}
	if refusal != nil {
		return beginning{}, nil, refusal
	}
	return beginning{members: c.Members}, missing, nil
}

// agrees refuses a member that waits to found another cluster.
func (c Config) agrees(a peerAnswer) error {
	if a.waits.Cluster != c.Name {
		return fmt.Errorf("member %s at %s is of cluster %q, this one of %q: set the same --cluster on all", a.from.Name, a.from.URL, a.waits.Cluster, c.Name)
	}
	return c.sameAs(a.from.Name, a.waits.Members)
}

// sameAs refuses a member that is configured with other members.
func (c Config) sameAs(name string, theirs []Member) error {
	key := func(m Member) string { return m.Name + "=" + m.URL }
	sorted := func(members []Member) string {
		var all []string
		for _, m := range members {
			all = append(all, key(m))
		}
		slices.Sort(all)
		return strings.Join(all, ",")
	}
	if mine, other := sorted(c.Members), sorted(theirs); mine != other {
		return fmt.Errorf("member %s was told of the members %s, and this one of %s: set the same --etcd-members on all", name, other, mine)
	}
	return nil
}

// placeIn finds this member in the list of an existing cluster.
func (c Config) placeIn(a peerAnswer) (beginning, error) {
	own, _ := c.own()
	i := slices.IndexFunc(a.members, func(m peerMember) bool { return slices.Contains(m.PeerURLs, own.URL) })
	if i < 0 {
		return beginning{}, store.Unfitf("the cluster of member %s has no place for %s at %s: run there: bellows etcd add %s %s", a.from.Name, own.Name, own.URL, own.Name, own.URL)
	}
	if len(a.members[i].ClientURLs) > 0 {
		return beginning{}, store.Unfitf("%s has no data, but %s knows member %s at %s as one that had: if its disk was lost, "+
			"run on another server: bellows etcd remove %s, then bellows etcd add %s %s; if not, set --data-dir to where its data are",
			c.DataDir, a.from.Name, a.members[i].Name, own.URL, a.members[i].Name, own.Name, own.URL)
	}
	b := beginning{joins: a.members[i].Name == ""}
	for n, m := range a.members {
		name := m.Name
		if n == i {
			name = own.Name
		}
		if name == "" || len(m.PeerURLs) == 0 {
			return b, fmt.Errorf("another member, at %s, is about to join: start that one first", strings.Join(m.PeerURLs, ","))
		}
		b.members = append(b.members, Member{Name: name, URL: m.PeerURLs[0]})
	}
	if !b.joins { // the cluster is being founded at this moment
		return b, c.sameAs(a.from.Name, b.members)
	}
	return b, nil
}

// wait tells other members that this one has no data yet, until stop is called.
func (c Config) wait(own Member) (stop func(), err error) {
	u, err := memberURL(own)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", u.Host)
	if err != nil {
		return nil, explainStart(fmt.Errorf("listen for other members: %w", err))
	}
	if c.TLS != nil {
		info := c.tlsInfo()
		config, tlsErr := info.ServerConfig()
		if tlsErr != nil {
			return nil, errors.Join(fmt.Errorf("read certificates: %w", tlsErr), ln.Close())
		}
		config.NextProtos = []string{"http/1.1"}
		ln = tls.NewListener(ln, config)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+waitingPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(waiting{Cluster: c.Name, Members: c.Members}) // a client that has gone asks again
	})
	server := &http.Server{Handler: mux, ReadTimeout: askTimeout, WriteTimeout: askTimeout, IdleTimeout: askTimeout, ErrorLog: discardLog()}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(ln) }) // ends with Close
	return func() { _ = server.Close(); wg.Wait() }, nil
}

// peers asks members over their peer addresses.
type peers struct{ client *http.Client }

func (c Config) peers() (peers, error) {
	t := &http.Transport{DisableKeepAlives: true}
	if c.TLS != nil {
		info := c.tlsInfo()
		config, err := info.ClientConfig()
		if err != nil {
			return peers{}, fmt.Errorf("read certificates: %w", err)
		}
		t.TLSClientConfig = config
	}
	return peers{&http.Client{Transport: t, Timeout: askTimeout}}, nil
}

// ask asks all members concurrently.
func (p peers) ask(ctx context.Context, members []Member) []peerAnswer {
	answers := make([]peerAnswer, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { answers[i] = p.one(ctx, m) })
	}
	wg.Wait()
	return answers
}

func (p peers) one(ctx context.Context, m Member) peerAnswer {
	a := peerAnswer{from: m}
	w := &waiting{}
	found, err := p.get(ctx, m.URL+waitingPath, w)
	switch {
	case err != nil:
		a.err = err
	case found:
		a.waits = w
	default:
		if found, a.err = p.get(ctx, m.URL+membersPath, &a.members); a.err == nil && (!found || len(a.members) == 0) {
			a.err = errors.New("something other than etcd answers there")
		}
	}
	return a
}

// get decodes a JSON answer; false means that the path is not found.
func (p peers) get(ctx context.Context, address string, into any) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, err
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return false, plainURLError(err)
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusNotFound:
		return false, nil
	case http.StatusOK:
		return true, json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(into)
	}
	return false, errors.New(answer.Status)
}
