package metrics

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/internal/gate"
)

const (
	// scrapesAtOnce bounds who is answered at a time: a server or two of Prometheus, and a person.
	scrapesAtOnce = 4
	// scrapeWithin bounds an answer; Prometheus itself gives up after 10 s.
	scrapeWithin = 8 * time.Second
	// countWithin bounds what is counted on demand, so that the rest is answered all the same.
	countWithin = 2 * time.Second
	// headerWithin bounds how long a connection may keep us waiting for its request.
	headerWithin = 5 * time.Second
	// idleFor is how long a connection may wait for its next request: longer than a usual
	// pause between scrapes.
	idleFor = 2 * time.Minute
	// connections bounds the open ones; every client that reaches the address may open them.
	connections = 64
	// maxHeader bounds a request's header.
	maxHeader = 16 << 10
	// readWithin bounds how long a client may take to read an answer; the next
	// client waits for it.
	readWithin = 20 * time.Second
	// shutdownWithin is how long open answers have to end.
	shutdownWithin = time.Second
)

// Set is the metrics of one process. Its methods may be called from anywhere.
type Set struct {
	gatherer prometheus.Gatherer
	registry *prometheus.Registry
	etcd     *prometheus.HistogramVec
}

func newSet(role Role, version string) *Set {
	s := &Set{registry: prometheus.NewRegistry(), etcd: histograms("bellows_etcd_call_seconds", callBuckets())}
	s.gatherer = s.registry
	info := family("bellows_build_info")
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: info.Name, Help: info.Help}, info.Labels)
	build.WithLabelValues(runtime.Version(), string(role), version).Set(1)
	s.registry.MustRegister(build, s.etcd, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// EtcdCall adds one call of etcd.
func (s *Set) EtcdCall(call, result string, took time.Duration) {
	s.etcd.WithLabelValues(call, result).Observe(took.Seconds())
}

// Certificate shows when this node's certificate ends, as end says at each scrape.
func (s *Set) Certificate(end func() time.Time) {
	f := family("bellows_certificate_end_timestamp_seconds")
	s.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: f.Name, Help: f.Help}, func() float64 { return float64(end().Unix()) }))
}

// WithEtcd also shows what an etcd within this process tells of itself.
func (s *Set) WithEtcd() {
	s.gatherer = prometheus.Gatherers{s.registry, prefixed{prometheus.DefaultGatherer, "etcd_"}}
}

// prefixed lets through the metrics whose names begin so: libraries register
// theirs with the default registry whether they are in use or not.
type prefixed struct {
	from   prometheus.Gatherer
	prefix string
}

// Gather implements prometheus.Gatherer.
func (p prefixed) Gather() ([]*dto.MetricFamily, error) {
	all, err := p.from.Gather()
	var some []*dto.MetricFamily
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), p.prefix) {
			some = append(some, f)
		}
	}
	return some, err
}

// CheckAddress reports what is wrong with a host:port to listen at.
func CheckAddress(address string) error {
	const remedy = "use ip:port, as in 127.0.0.1:9464, or :9464 for every address of this machine"
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q: %s", address, remedy)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 1<<16-1 {
		return fmt.Errorf("%q: port %q: use 1 to 65535, or 0 for any free one", address, port)
	}
	if host != "" && net.ParseIP(host) == nil {
		return fmt.Errorf("%q: %q is no IP address: %s", address, host, remedy)
	}
	return nil
}

// Listen opens the address to be scraped at.
func Listen(address string) (net.Listener, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for scrapes: %w: choose another --metrics-address, or leave it out", err)
	}
	return ln, nil
}

// Serve answers at /metrics until ctx ends, closes the listener, and returns
// when every answer has ended.
func (s *Set) Serve(ctx context.Context, ln net.Listener, log zerolog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	faults := stdlog.New(log.With().Str("listener", "metrics").Logger(), "", 0)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{
		ErrorLog: faults, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeWithin,
	}))
	srv := &http.Server{
		Handler: mux, ReadTimeout: headerWithin, WriteTimeout: readWithin, IdleTimeout: idleFor, MaxHeaderBytes: maxHeader,
		ErrorLog: faults, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		grace, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownWithin)
		defer done()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close() // a client that still reads has had its grace
		}
	})
	err := srv.Serve(gate.Listen(ln, gate.Config{Total: connections}))
	cancel()
	wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve metrics: %w", err)
}
