package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/bellows-ml/bellows/record"
)

const (
	// A single server elects itself after about one election timeout, so a short
	// one makes the start fast. It has no heartbeats that could come late.
	singleTickMS     = 50
	singleElectionMS = 250
	// With several members the leader sends ten heartbeats a second, and a second
	// without one starts an election. These are etcd's own defaults: they tolerate a
	// slow fsync and are far below the 10 s of a node's lease.
	tickMS     = 100
	electionMS = 1000
	// historyRevisions is how far back a watch can start, about a day of a busy
	// cluster. A client that is further behind lists again, so this only bounds the
	// disk. etcd compacts to it every five minutes.
	historyRevisions = 10_000
	// quotaBytes bounds the database. Bellows keeps kilobytes per job, tens of
	// megabytes with thousands of jobs and all their history. The value is what etcd
	// recommends for a big cluster. Pages that compaction has freed are used again,
	// so only a database that has reached the quota needs Compact.
	quotaBytes = 2 << 30
)

// singlePeerAddress is the peer address that a single server has in its data, since
// every member has one. Nothing listens there.
const singlePeerAddress = "127.0.0.1:2380"

// Member is one server of an etcd of several.
type Member struct {
	Name string // the node's name
	URL  string // the address for the other members: https://IP:port
}

// TLS names the files with which clients and members authenticate each other. The
// certificate and key are read for each connection, the authorities at the start.
type TLS struct {
	Cert, Key, Authority string
	// ServerName is the name that the certificates of all members carry.
	ServerName string
}

// Config says where a server keeps its data and listens.
type Config struct {
	DataDir string // created if absent; one server at a time
	Client  string // host:port for clients; port 0 or empty = any free one of 127.0.0.1
	// Name is the cluster's; empty = "bellows". A data directory of another cluster is refused.
	Name string
	// Member is this server's name among Members. A data directory of another
	// member is refused. Empty: a single server, without other members.
	Member string
	// Members are all members of the cluster to found or to join, including this
	// one. Once the server has data, only this member's own address is used.
	Members []Member
	// TLS authenticates clients and members to each other; nil = a client that
	// reaches the address may do everything.
	TLS *TLS
	// MaxTxnOps is how many operations a transaction may have; 0 = record.DefaultMaxTxnOps.
	MaxTxnOps int
	// NoFsync acknowledges writes before they are on disk: for tests only.
	NoFsync bool
	Log     zerolog.Logger
}

// own returns this server among the members; false = it is a single server.
func (c Config) own() (Member, bool) {
	i := slices.IndexFunc(c.Members, func(m Member) bool { return m.Name == c.Member })
	if i < 0 {
		return Member{}, false
	}
	return c.Members[i], true
}

// tlsInfo translates c.TLS for etcd.
func (c Config) tlsInfo() transport.TLSInfo {
	if c.TLS == nil {
		return transport.TLSInfo{}
	}
	return transport.TLSInfo{
		CertFile: c.TLS.Cert, KeyFile: c.TLS.Key, TrustedCAFile: c.TLS.Authority, ServerName: c.TLS.ServerName, ClientCertAuth: true,
		// Certificates name nodes, wherever those are.
		SkipClientSANVerify: true,
		MinVersion:          minTLS,
	}
}

// etcd translates the configuration.
func (c Config) etcd(streams context.Context, b beginning, lg *zap.Logger) (*embed.Config, error) {
	ec := embed.NewConfig()
	ec.Name = cmp.Or(c.Member, c.Name)
	ec.Dir = filepath.Join(c.DataDir, etcdDir)
	if err := c.listen(ec); err != nil {
		return nil, err
	}
	ec.InitialCluster = ec.InitialClusterFromName(ec.Name)
	if len(b.members) > 0 {
		ec.InitialCluster = initialCluster(b.members)
	}
	ec.ClusterState = embed.ClusterStateFlagNew
	if b.joins {
		ec.ClusterState = embed.ClusterStateFlagExisting
	}
	ec.InitialClusterToken = c.Name
	ec.MaxTxnOps = uint(cmp.Or(c.MaxTxnOps, record.DefaultMaxTxnOps))
	ec.AutoCompactionMode = embed.CompactorModeRevision
	ec.AutoCompactionRetention = strconv.Itoa(historyRevisions)
	ec.QuotaBackendBytes = quotaBytes
	ec.UnsafeNoFsync = c.NoFsync
	ec.EnableGRPCGateway = false // its own connection would delay Close too
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(lg)
	ec.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(endWith(streams))}
	return ec, nil
}

// listen sets the addresses, the certificates and the election times.
func (c Config) listen(ec *embed.Config) error {
	client, err := httpURL("client", cmp.Or(c.Client, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	if c.TLS != nil {
		client.Scheme = "https"
		ec.ClientTLSInfo, ec.PeerTLSInfo, ec.TlsMinVersion = c.tlsInfo(), c.tlsInfo(), "TLS1.3"
	}
	ec.ListenClientUrls, ec.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	// The address of a member is part of its data, so a server without a listener has a constant one.
	ec.ListenPeerUrls, ec.AdvertisePeerUrls = nil, []url.URL{{Scheme: "http", Host: singlePeerAddress}}
	ec.TickMs, ec.ElectionMs = singleTickMS, singleElectionMS
	own, ok := c.own()
	if !ok {
		return nil
	}
	peer, err := memberURL(own)
	if err != nil {
		return err
	}
	ec.ListenPeerUrls, ec.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	ec.TickMs, ec.ElectionMs = tickMS, electionMS
	// Members compare their data when they start and when they compact, which detects a corrupt disk.
	gates, ok := ec.ServerFeatureGate.(featuregate.MutableFeatureGate)
	if !ok {
		return errors.New("etcd's features cannot be chosen")
	}
	return gates.Set("InitialCorruptCheck=true,CompactHashCheck=true")
}

func initialCluster(members []Member) string {
	all := make([]string, len(members))
	for i, m := range members {
		all[i] = m.Name + "=" + m.URL
	}
	return strings.Join(all, ",")
}

func httpURL(what, address string) (url.URL, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) == nil || strings.Trim(port, "0123456789") != "" {
		return url.URL{}, fmt.Errorf("%s address %q: use an IP address and a port, as in 127.0.0.1:2379", what, address)
	}
	return url.URL{Scheme: "http", Host: address}, nil
}

// memberURL parses a member's address: a scheme, an IP address and a port.
func memberURL(m Member) (url.URL, error) {
	scheme, address, _ := strings.Cut(m.URL, "://")
	u, err := httpURL("member", strings.TrimSuffix(address, "/"))
	if err != nil || scheme != "https" && scheme != "http" {
		return u, fmt.Errorf("member %s at %q: use https, an IP address and a port, as in https://10.0.0.1:2380", m.Name, m.URL)
	}
	u.Scheme = scheme
	return u, nil
}
