package store

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
	// A single member elects itself after about one election timeout, so short
	// ones make the start fast; it has no heartbeats that could come late.
	loneTickMS     = 50
	loneElectionMS = 250
	// Members of several hear from their leader ten times a second, and elect
	// another after a second of silence: etcd's own defaults, which forgive a slow
	// fsync, and are far below the 10 s of a node's lease.
	tickMS     = 100
	electionMS = 1000
	// historyRevisions is how much history watches can catch up on, about a day
	// of a busy cluster. Who is further behind lists again, so this only bounds
	// the disk. etcd compacts to it every five minutes.
	historyRevisions = 10_000
	// quotaBytes bounds the data. Bellows keeps kilobytes per job, tens of
	// megabytes with thousands of jobs and all their history; this is etcd's own
	// advice for a big cluster, and protects the disk. Pages that compaction has
	// freed are used again, so only what outgrew the quota needs Compact.
	quotaBytes = 2 << 30
)

// loneAddress is the peer address that a server without members has in its
// data, as every member has one; nothing listens there.
const loneAddress = "127.0.0.1:2380"

// Member is one server of an embedded etcd of several.
type Member struct {
	Name string // a node's
	URL  string // under which the others reach it: https://IP:port
}

// MemberTLS is what clients and members show each other: the files of a node's
// certificate, read again for each connection, and of the authorities, which are
// read at the start.
type MemberTLS struct {
	Cert, Key, Authority string
	// ServerName is the name that the certificates of all members carry.
	ServerName string
}

// EmbeddedConfig says where an embedded server keeps its data and listens.
type EmbeddedConfig struct {
	DataDir string // made if absent; one server at a time
	Client  string // host:port for clients; port 0 or empty = any free one of 127.0.0.1
	// Name is the cluster's; empty = "bellows". A data directory of another cluster is refused.
	Name string
	// Member is this server's name among Members. A data directory of another
	// member is refused. Empty: a server that nobody else joins.
	Member string
	// Members are all with which a cluster is founded, or joined, this one among
	// them. Once there are data it only matters where this member is reached.
	Members []Member
	// TLS protects clients and members on both sides; nil = anybody who reaches the addresses may do everything.
	TLS *MemberTLS
	// MaxTxnOps is how many operations a transaction may have; 0 = record.DefaultMaxTxnOps.
	MaxTxnOps int
	// NoFsync answers before data is on disk: for tests only, a power cut loses what was acknowledged.
	NoFsync bool
	Log     zerolog.Logger
}

// own is this server among the members; false = it has no listener for others.
func (c EmbeddedConfig) own() (Member, bool) {
	i := slices.IndexFunc(c.Members, func(m Member) bool { return m.Name == c.Member })
	if i < 0 {
		return Member{}, false
	}
	return c.Members[i], true
}

// tlsInfo is the same as etcd wants it.
func (c EmbeddedConfig) tlsInfo() transport.TLSInfo {
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

// etcd translates the configuration. initial are the members with which the
// data begin, if there are none yet, and joins says that those others have theirs.
func (c EmbeddedConfig) etcd(streams context.Context, b beginning, lg *zap.Logger) (*embed.Config, error) {
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
	ec.EnableGRPCGateway = false // its own connection would hold up Close, too
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(lg)
	ec.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(endWith(streams))}
	return ec, nil
}

// listen sets addresses, certificates, and the pace that goes with them.
func (c EmbeddedConfig) listen(ec *embed.Config) error {
	client, err := httpURL("client", cmp.Or(c.Client, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	if c.TLS != nil {
		client.Scheme = "https"
		ec.ClientTLSInfo, ec.PeerTLSInfo, ec.TlsMinVersion = c.tlsInfo(), c.tlsInfo(), "TLS1.3"
	}
	ec.ListenClientUrls, ec.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	// The address of a member is part of its data, so one without a listener has a constant one.
	ec.ListenPeerUrls, ec.AdvertisePeerUrls = nil, []url.URL{{Scheme: "http", Host: loneAddress}}
	ec.TickMs, ec.ElectionMs = loneTickMS, loneElectionMS
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
	// Members compare their data when they start and when they compact: one whose disk lies is not believed.
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

// memberURL reads a member's address: a scheme, an IP address and a port.
func memberURL(m Member) (url.URL, error) {
	scheme, address, _ := strings.Cut(m.URL, "://")
	u, err := httpURL("member", strings.TrimSuffix(address, "/"))
	if err != nil || scheme != "https" && scheme != "http" {
		return u, fmt.Errorf("member %s at %q: use https, an IP address and a port, as in https://10.0.0.1:2380", m.Name, m.URL)
	}
	u.Scheme = scheme
	return u, nil
}
