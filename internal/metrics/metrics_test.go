package metrics_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/metrics"
	"github.com/bellows-ml/bellows/record"
)

var update = flag.Bool("update", false, "write docs/metrics.md's table anew")

// served is a set that is served, until the test ends.
func served(t *testing.T, s *metrics.Set) string {
	t.Helper()
	ln, err := metrics.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln, zerolog.Nop()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String() + "/metrics"
}

// scrape reads what is served as Prometheus does.
func scrape(t *testing.T, url string) (map[string]*dto.MetricFamily, string) {
	t.Helper()
	resp, err := http.Get(url) //nolint:gosec,noctx // the address is the test's own
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v: %s", resp.Status, err, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return families, string(text)
}

// busy is an agent and a coordinator in which everything has happened.
func busy() (*metrics.Agent, *metrics.Coordinator) {
	a := metrics.NewAgent("1.2.3")
	a.EtcdCall("txn", "applied", 3*time.Millisecond)
	ratio, bytes, degrees := 0.5, uint64(1<<30), 61
	a.Tell(metrics.Node{
		InCluster: true, Renewed: time.Now(), Workers: 2, Devices: map[record.DeviceState]int{record.DeviceInUse: 2},
		Gossip: map[string]int{"alive": 3, "dead": 1}, GossipScore: 1,
		Readings: []metrics.Reading{{Device: "GPU-1", Busy: &ratio, MemoryUsedBytes: &bytes, TemperatureC: &degrees}},
	})
	c := metrics.NewCoordinator("1.2.3", func(context.Context) (record.Census, bool) {
		return record.Census{
			Jobs: map[cluster.Phase]int{cluster.Running: 1}, Nodes: map[record.NodeState]int{record.NodeInService: 3},
			Devices: map[record.DeviceState]int{record.DeviceFree: 4}, Scattered: 3,
			Active: []record.JobCensus{{ID: "j-aaaaaa", Workers: 4, Steps: 300, StepsPerSecond: 4, Trained: 100 * time.Second, Restarts: 1, GainPredicted: 1.6, GainMeasured: 1.5}},
		}, true
	})
	for _, set := range []*metrics.Set{a.Set, c.Set} {
		set.Certificate(func() time.Time { return time.Unix(1e9, 0) })
	}
	c.EtcdCall("list", "error", time.Second)
	c.Leads(true)
	c.Stepped(time.Millisecond)
	c.Decided(time.Millisecond, errors.New("no"))
	c.Rescaled(record.Rescale{From: 4, To: 2, SaveS: 2, OwnS: 0.2, LostSteps: 3})
	c.Rescaled(record.Rescale{To: 4, LostSteps: -1}) // unknown is not negative
	return a, c
}

// What is served is what the list says, name for name and label for label, and to the taste of Prometheus's own checker.
func TestWhatIsServedIsListed(t *testing.T) {
	t.Parallel()
	a, c := busy()
	for role, set := range map[metrics.Role]*metrics.Set{metrics.AgentRole: a.Set, metrics.CoordinatorRole: c.Set} {
		got, text := scrape(t, served(t, set))
		for _, f := range metrics.Families() {
			if !slices.Contains(f.Of, role) {
				continue
			}
			g := got[f.Name]
			if g == nil {
				t.Errorf("%s: %s is listed and not served", role, f.Name)
				continue
			}
			delete(got, f.Name)
			var labels []string
			for _, l := range g.Metric[0].Label {
				labels = append(labels, l.GetName())
			}
			if kind := strings.ToLower(g.GetType().String()); kind != string(f.Kind) || g.GetHelp() != f.Help || !slices.Equal(labels, f.Labels) {
				t.Errorf("%s: %s is a %s of %v (%q), listed as a %s of %v (%q)", role, f.Name, kind, labels, g.GetHelp(), f.Kind, f.Labels, f.Help)
			}
		}
		for name := range got {
			if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
				t.Errorf("%s: %s is served and not listed", role, name)
			}
		}
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		for _, p := range problems {
			t.Errorf("%s: %s: %s", role, p.Metric, p.Text)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// value returns a metric's value by its labels, as name{a="b"}.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range families[name].GetMetric() {
		var have []string
		for _, l := range m.Label {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		if slices.Equal(have, labels) {
			switch {
			case m.Gauge != nil:
				return m.Gauge.GetValue()
			case m.Counter != nil:
				return m.Counter.GetValue()
			}
			return m.Histogram.GetSampleSum()
		}
	}
	t.Errorf("no %s%v", name, labels)
	return -1
}

func TestValues(t *testing.T) {
	t.Parallel()
	_, c := busy()
	got, _ := scrape(t, served(t, c.Set))
	for _, w := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "bellows_leader", nil},
		{1e9, "bellows_certificate_end_timestamp_seconds", nil},
		{1, "bellows_terms_total", nil},
		{1, "bellows_jobs", []string{"phase=running"}},
		{0, "bellows_jobs", []string{"phase=held"}},
		{4, "bellows_devices", []string{"state=free"}},
		{0.75, "bellows_device_fragmentation_ratio", nil},
		{3, "bellows_job_goodput_steps_per_second", []string{"job=j-aaaaaa"}},
		{1, "bellows_rescales_total", []string{"kind=shrink"}},
		{1, "bellows_rescales_total", []string{"kind=start"}},
		{0, "bellows_rescales_total", []string{"kind=grow"}},
		{2, "bellows_rescale_seconds", []string{"part=save"}},
		{3, "bellows_lost_steps_total", nil},
		{1, "bellows_decision_failures_total", nil},
		{1, "bellows_etcd_call_seconds", []string{"call=list", "result=error"}},
	} {
		if v := value(t, got, w.name, w.labels...); v != w.want {
			t.Errorf("%s%v is %v, want %v", w.name, w.labels, v, w.want)
		}
	}
	c.Leads(false)
	if got, _ = scrape(t, served(t, c.Set)); value(t, got, "bellows_leader") != 0 {
		t.Error("it says that it leads after its term")
	}
}

// A coordinator that does not lead, or does not come to it, tells of itself and nothing of the cluster.
func TestWhoDoesNotLeadCountsNothing(t *testing.T) {
	t.Parallel()
	c := metrics.NewCoordinator("1", func(ctx context.Context) (record.Census, bool) {
		<-ctx.Done() // a leader that is busy for long
		return record.Census{}, false
	})
	got, _ := scrape(t, served(t, c.Set))
	if got["bellows_jobs"] != nil || value(t, got, "bellows_leader") != 0 {
		t.Errorf("it tells %v", got["bellows_jobs"])
	}
	a := metrics.NewAgent("1") // that has not begun
	if got, _ = scrape(t, served(t, a.Set)); value(t, got, "bellows_node_in_cluster") != 0 {
		t.Error("an agent that has told nothing is in the cluster")
	}
}

// An etcd within the process tells of itself where it is wanted, and only then.
func TestWithEtcd(t *testing.T) {
	t.Parallel()
	c := metrics.NewCoordinator("1", func(context.Context) (record.Census, bool) { return record.Census{}, false })
	c.WithEtcd()
	got, _ := scrape(t, served(t, c.Set)) // twice the same name would be refused
	for name := range got {
		if !strings.HasPrefix(name, "bellows_") && !strings.HasPrefix(name, "etcd_") && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("it serves %s", name)
		}
	}
}

func TestBadAddresses(t *testing.T) {
	t.Parallel()
	ln, err := metrics.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for address, want := range map[string]string{
		"9464":                `"9464": use ip:port, as in 127.0.0.1:9464`,
		"":                    `"": use ip:port`,
		"127.0.0.1:http":      `port "http": use 1 to 65535`,
		"127.0.0.1:70000":     `port "70000": use 1 to 65535`,
		"somewhere:9464":      `"somewhere" is no IP address`,
		ln.Addr().String():    "address already in use: choose another --metrics-address, or leave it out",
		"203.0.113.1:9464":    "cannot assign requested address",
		"[::1%nowhere]:94644": "use 1 to 65535",
	} {
		other, err := metrics.Listen(address)
		if err == nil {
			_ = other.Close()
			t.Errorf("%q is listened at", address)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
}

// docs/metrics.md has every metric, in a table that is written from the list.
func TestDocsAreCurrent(t *testing.T) {
	const path, begin, end = "../../docs/metrics.md", "<!-- metrics -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %s … %s", path, begin, end)
	}
	var table strings.Builder
	table.WriteString("| metric | type | labels | of | what it is |\n|---|---|---|---|---|\n")
	for _, f := range metrics.Families() {
		var of []string
		for _, r := range f.Of {
			of = append(of, string(r))
		}
		labels := ""
		for _, l := range f.Labels {
			labels += "`" + l + "` "
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Kind, strings.TrimSpace(labels), strings.Join(of, ", "), f.Help)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // a page of documentation
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is not what the list says: go test ./metrics -update", path)
	}
}
