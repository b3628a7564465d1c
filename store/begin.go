package store

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
)

// A member without data either helps to found a cluster or joins one, and must
// not take the one for the other: a member that has lost its disk and founds
// its cluster anew would vote in the other members' past. So it asks all others
// first, and founds only with members that say themselves that they have no data.
//
//	data ──► go on
//	none ──► ask the others ──► all wait, too ───────────────► found
//	             ▲              one has a cluster with a place ─► join
//	             │              for this member, never taken
//	             │              the place was taken, or none ───► refuse
//	             └───────────── somebody does not answer

const (
	// waitingPath is what a member without data answers; etcd has nothing there.
	waitingPath = "/bellows/waiting"
	membersPath = "/members"
	// askEvery is how often the other members are asked, sayEvery how often people are told that one does not answer.
	askEvery = 500 * time.Millisecond
	sayEvery = 15 * time.Second
	// askTimeout bounds one question to one member.
	askTimeout = 2 * time.Second
	// maxAnswer bounds an answer: etcd has a handful of members.
	maxAnswer = 1 << 20
	minTLS    = tls.VersionTLS13
)

// beginning is how a member without data begins; zero: it has data, or is alone.
type beginning struct {
	members []Member
	joins   bool
}

// waiting is what a member says of itself while it has no data.
type waiting struct {
	Cluster string   `json:"cluster"`
	Members []Member `json:"members"`
}

// peerMember is a member as another one's etcd lists it.
type peerMember struct {
	ID         uint64   `json:"id"`
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"` // empty = it has never started
}

// peerAnswer is what a member says: it waits, or its cluster's members.
type peerAnswer struct {
	from    Member
	waits   *waiting
	members []peerMember
	err     error // it says nothing
}

// begin finds out how this member begins, waiting for the others as long as it takes.
func (c EmbeddedConfig) begin(ctx context.Context) (beginning, error) {
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
	var said time.Time
	var before []string
	for {
		answers := peers.ask(ctx, c.others())
		b, missing, err := c.judge(answers)
		switch {
		case ctx.Err() != nil:
			return b, ctx.Err()
		case err != nil || len(missing) == 0:
			return b, err
		case time.Since(said) > sayEvery, !slices.Equal(missing, before) && time.Since(said) > askTimeout:
			c.Log.Warn().Strs("missing", missing).Msg("waiting for the other members, to found a cluster with them or to join it")
			said, before = time.Now(), missing
		}
		select {
		case <-ctx.Done():
		case <-time.After(askEvery):
		}
	}
}

// hasData reports whether there is a log, without which etcd begins anew. What
// cannot be looked at is not taken for empty.
func (c EmbeddedConfig) hasData() bool {
	entries, err := os.ReadDir(filepath.Join(c.DataDir, etcdDir, "member", "wal"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".wal" })
}

// hasDatabase reports whether there is a database, though perhaps no log.
func (c EmbeddedConfig) hasDatabase() bool {
	_, err := os.Lstat(filepath.Join(c.DataDir, etcdDir, "member", "snap", "db"))
	return !errors.Is(err, fs.ErrNotExist)
}

func (c EmbeddedConfig) others() []Member {
	return slices.DeleteFunc(slices.Clone(c.Members), func(m Member) bool { return m.Name == c.Member })
}

// judge says how to begin, or which members have yet to answer. A member may not
// have heard yet of a place that another one knows of.
func (c EmbeddedConfig) judge(answers []peerAnswer) (b beginning, missing []string, err error) {
	var refusal error
	for _, a := range answers {
		switch {
		case a.err != nil:
			missing = append(missing, fmt.Sprintf("%s at %s: %v", a.from.Name, a.from.URL, a.err))
		case a.waits != nil:
			// Whose settings are wrong is not known: wait until they are right.
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

// agrees refuses a member that waits for something else.
func (c EmbeddedConfig) agrees(a peerAnswer) error {
	if a.waits.Cluster != c.Name {
		return fmt.Errorf("member %s at %s is of cluster %q, this one of %q: set the same --cluster on all", a.from.Name, a.from.URL, a.waits.Cluster, c.Name)
	}
	return c.sameAs(a.from.Name, a.waits.Members)
}

// sameAs refuses a member that was told of other members.
func (c EmbeddedConfig) sameAs(name string, theirs []Member) error {
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

// placeIn is this member's place in a cluster that exists.
func (c EmbeddedConfig) placeIn(a peerAnswer) (beginning, error) {
	own, _ := c.own()
	i := slices.IndexFunc(a.members, func(m peerMember) bool { return slices.Contains(m.PeerURLs, own.URL) })
	if i < 0 {
		return beginning{}, unfit("the cluster of member %s has no place for %s at %s: run there: bellows etcd add %s %s", a.from.Name, own.Name, own.URL, own.Name, own.URL)
	}
	if len(a.members[i].ClientURLs) > 0 {
		return beginning{}, unfit("%s has no data, but %s knows member %s at %s as one that had: if its disk was lost, "+
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
	if !b.joins { // it is being founded at this moment
		return b, c.sameAs(a.from.Name, b.members)
	}
	return b, nil
}

// wait answers other members that this one has no data yet, until stop is called.
func (c EmbeddedConfig) wait(own Member) (stop func(), err error) {
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
		_ = json.NewEncoder(w).Encode(waiting{Cluster: c.Name, Members: c.Members}) // who is gone asks again
	})
	server := &http.Server{Handler: mux, ReadTimeout: askTimeout, WriteTimeout: askTimeout, IdleTimeout: askTimeout, ErrorLog: discardLog()}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(ln) }) // ends with Close
	return func() { _ = server.Close(); wg.Wait() }, nil
}

// peers asks members over the addresses at which they reach each other.
type peers struct{ client *http.Client }

func (c EmbeddedConfig) peers() (peers, error) {
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

// ask asks all at once.
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
			a.err = errors.New("something that is no etcd answers there")
		}
	}
	return a
}

// get reads a JSON answer; false means that there is nothing under this path.
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
