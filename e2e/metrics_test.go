package e2e

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// scraped is what one answer of /metrics says.
type scraped map[string]*dto.MetricFamily

// value is a gauge's or counter's, or how often a histogram has observed; -1 if
// there is no such metric. Labels are name=value.
func (s scraped) value(name string, labels ...string) float64 {
	for _, m := range s[name].GetMetric() {
		var have []string
		for _, l := range m.Label {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		if slices.Equal(have, labels) {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return -1
}

// scrape reads and parses /metrics as Prometheus does; nil while there is no answer.
func (p *place) scrape(address string) scraped {
	p.t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s answers %s: %v", address, resp.Status, err)
	}
	return families
}

// awaitScrape scrapes until what is read is as wanted.
func (p *place) awaitScrape(address, what string, want func(scraped) bool) scraped {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		s := p.scrape(address)
		if s != nil && want(s) {
			return s
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s never showed %s: %v", address, what, s)
		}
	}
}

// terms is how often a coordinator's log says that it began to lead: on a machine
// with too much to do that may be more than once.
func (ps *processes) terms(name string) (n int) {
	ps.t.Helper()
	text, err := os.ReadFile(ps.procs[name].log)
	if err != nil {
		ps.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "leading") && strings.Contains(line, "policy") {
			n++
		}
	}
	return n
}

// The leader counts the cluster, every agent its node, and they say what is true.
func TestMetrics(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{nodes: 2, devices: 2, policy: "share"})
	f.startEtcd()
	coordinators := []string{f.addr(1) + ":9464", f.addr(2) + ":9464"}
	for i, address := range coordinators {
		f.startCoordinator(i+1, "--metrics-address", address)
	}
	agent := f.addr(1) + ":9465"
	f.startAgent(1, "--metrics-address", agent)
	f.startAgent(2)
	f.awaitMembers()
	leader, other := coordinators[0], coordinators[1]
	leaderName := "coordinator-1"
	if f.leader() == "c2" {
		leader, other = other, leader
		leaderName = "coordinator-2"
	}
	id := f.submit(f.sdkJob("counted", 1, 4, 100000, 0.05))
	f.awaitStep("counted", 3, 4)
	job := "job=" + string(id)
	s := f.awaitScrape(leader, "a job that trains", func(s scraped) bool {
		return s.value("bellows_jobs", "phase=running") == 1 && s.value("bellows_job_useful_steps", job) > 0
	})
	for _, want := range []struct {
		value float64
		name  string
		label string
	}{
		{1, "bellows_jobs", "phase=running"},
		{0, "bellows_jobs", "phase=queued"},
		{2, "bellows_nodes", "state=alive"},
		{4, "bellows_devices", "state=used"},
		{0, "bellows_devices", "state=free"},
		{4, "bellows_job_workers", job},
		{1, "bellows_rescales_total", "kind=start"},
	} {
		if got := s.value(want.name, want.label); got != want.value {
			t.Errorf("%s{%s} is %v, want %v", want.name, want.label, got, want.value)
		}
	}
	goodput := s.value("bellows_job_useful_steps", job) / s.value("bellows_job_trained_seconds", job)
	if got := s.value("bellows_job_goodput_steps_per_second", job); got <= 0 || got < 0.9*goodput || got > 1.1*goodput {
		t.Errorf("goodput is %v, steps over seconds is %v", got, goodput)
	}
	if s.value("bellows_etcd_call_seconds", "call=txn", "result=applied") < 3 {
		t.Errorf("the leader says %v", s)
	}
	f.awaitScrape(leader, "that it leads, and each term of its log", func(s scraped) bool {
		terms := f.terms(leaderName)
		return terms > 0 && s.value("bellows_leader") == 1 && s.value("bellows_terms_total") == float64(terms)
	})
	if waits := f.scrape(other); waits.value("bellows_leader") != 0 || waits["bellows_jobs"] != nil {
		t.Errorf("who does not lead says that it leads: %v, and counts %v", waits.value("bellows_leader"), waits["bellows_jobs"])
	}
	f.awaitScrape(agent, "its node", func(s scraped) bool {
		age := s.value("bellows_node_lease_age_seconds")
		return s.value("bellows_node_in_cluster") == 1 && s.value("bellows_node_workers") == 2 && s.value("bellows_node_devices", "state=used") == 2 &&
			s.value("bellows_gossip_members", "state=alive") == 2 && age >= 0 && age < 10 && s.value("bellows_etcd_call_seconds", "call=renew", "result=ok") > 0
	})

	// A rescale is counted by who leads then, and the other one after it.
	guest := f.submit(f.sdkJob("makes-room", 2, 2, 100000, 0.05))
	s = f.awaitScrape(leader, "a rescale", func(s scraped) bool { return s.value("bellows_rescales_total", "kind=shrink") == 1 })
	for _, part := range []string{"signal", "save", "wait", "commit", "start"} {
		if n := s.value("bellows_rescale_seconds", "part="+part); n < 2 {
			t.Errorf("%v rescales have a part %s, want 2", n, part)
		}
	}
	f.stop(guest)
	f.awaitPhase(guest, cluster.Stopped)
	f.kill("coordinator-" + strings.TrimPrefix(f.leader(), "c"))
	f.awaitScrape(other, "that it leads now", func(s scraped) bool {
		return s.value("bellows_leader") == 1 && s.value("bellows_jobs", "phase=running") == 1
	})
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.awaitScrape(other, "nothing that trains", func(s scraped) bool {
		return s["bellows_job_workers"] == nil && s.value("bellows_jobs", "phase=running") == 0 && s.value("bellows_devices", "state=free") == 4
	})
}

// What cannot be listened at is refused at once; what is in the cluster notices nothing.
func TestMetricsAddressIsTaken(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	taken := f.listenTCP(f.addr(30) + ":9464")
	for _, args := range [][]string{
		{"coordinator", "--etcd", f.endpoint, "--name", "wrong", "--metrics-address", taken},
		{
			"agent", "--node", "n8", "--etcd", f.endpoint, "--bind", f.addr(8), "--socket", f.socket(8), "--data-dir", f.nodeDir(8),
			"--simulate-devices", "1", "--lock-dir", f.dir + "/locks", "--metrics-address", taken,
		},
	} {
		s := startSession(t, f.command(1, args...))
		if code := s.wait(); code != 1 || !strings.Contains(s.errs.String(), "address already in use: choose another --metrics-address, or leave it out") {
			t.Errorf("%s exits %d: %s", args[0], code, s.errs.String())
		}
	}
	m := f.mirror()
	if m.Node("n8").Alive.Exists() {
		t.Error("the agent that was refused is in the cluster")
	}
	for _, l := range m.Leaders {
		if l.Value.Node == "wrong" {
			t.Error("the coordinator that was refused is a candidate")
		}
	}
}

// A coordinator that waits for etcd can be asked how it does.
func TestMetricsWithoutEtcd(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{})
	f.endpoint = f.addr(0) + ":2379"
	at := f.addr(1) + ":9464"
	f.startCoordinator(1, "--metrics-address", at)
	f.awaitScrape(at, "that it does not lead", func(s scraped) bool { return s.value("bellows_leader") == 0 && s["bellows_jobs"] == nil })
	f.startEtcd()
	f.awaitScrape(at, "that it leads", func(s scraped) bool { return s.value("bellows_leader") == 1 && s["bellows_jobs"] != nil })
	f.stopEtcd()
	idle := f.awaitScrape(at, "that it leads no more", func(s scraped) bool {
		return s.value("bellows_leader") == 0 && s.value("bellows_etcd_call_seconds", "call=renew", "result=error") > 0
	})
	f.startEtcd()
	f.await("a leader", func(m *record.Mirror) bool { return len(m.Leaders) > 0 })
	f.awaitScrape(at, "that it leads again", func(s scraped) bool {
		return s.value("bellows_leader") == 1 && s.value("bellows_terms_total") > idle.value("bellows_terms_total")
	})
	f.awaitScrape(at, "each term of its log", func(s scraped) bool { return s.value("bellows_terms_total") == float64(f.terms("coordinator-1")) })
}
