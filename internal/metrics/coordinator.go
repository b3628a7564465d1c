package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Coordinator is the metrics of a coordinator. It is told what the coordinator
// does, and asks what the leader sees when it is scraped.
type Coordinator struct {
	*Set
	leads            prometheus.Gauge
	terms            prometheus.Counter
	steps, decisions prometheus.Histogram
	failures, lost   prometheus.Counter
	rescales         *prometheus.CounterVec
	parts            *prometheus.HistogramVec
	own              prometheus.Histogram
}

// The kinds of rescales, and their parts.
const (
	kindStart, kindGrow, kindShrink, kindMove               = "start", "grow", "shrink", "move"
	partSignal, partSave, partWait, partCommit, partOfStart = "signal", "save", "wait", "commit", "start"
)

// NewCoordinator makes the metrics of a coordinator; census counts what it sees,
// and is false where it does not lead.
func NewCoordinator(version string, census func(context.Context) (record.Census, bool)) *Coordinator {
	c := &Coordinator{
		Set: newSet(CoordinatorRole, version), leads: gauge("bellows_leader"), terms: counter("bellows_terms_total"),
		steps: histogram("bellows_leader_step_seconds", stepBuckets()), decisions: histogram("bellows_decision_seconds", stepBuckets()),
		failures: counter("bellows_decision_failures_total"), lost: counter("bellows_lost_steps_total"),
		rescales: counters("bellows_rescales_total"), parts: histograms("bellows_rescale_seconds", rescaleBuckets()),
		own: histogram("bellows_rescale_own_seconds", rescaleBuckets()),
	}
	for _, kind := range []string{kindStart, kindGrow, kindShrink, kindMove} {
		c.rescales.WithLabelValues(kind) // 0 from the beginning, so that the first one is an increase
	}
	for _, part := range []string{partSignal, partSave, partWait, partCommit, partOfStart} {
		c.parts.WithLabelValues(part)
	}
	c.registry.MustRegister(c.leads, c.terms, c.steps, c.decisions, c.failures, c.lost, c.rescales, c.parts, c.own, newSeen(census))
	return c
}

// Leads tells that a term begins or ends.
func (c *Coordinator) Leads(leads bool) {
	if !leads {
		c.leads.Set(0)
		return
	}
	c.leads.Set(1)
	c.terms.Inc()
}

// Stepped adds one decision of the leader.
func (c *Coordinator) Stepped(took time.Duration) { c.steps.Observe(took.Seconds()) }

// Decided adds one answer of the policy.
func (c *Coordinator) Decided(took time.Duration, err error) {
	c.decisions.Observe(took.Seconds())
	if err != nil {
		c.failures.Inc()
	}
}

// Rescaled adds a generation that came to run.
func (c *Coordinator) Rescaled(r record.Rescale) {
	kind := kindMove
	switch {
	case r.From == 0:
		kind = kindStart
	case r.To > r.From:
		kind = kindGrow
	case r.To < r.From:
		kind = kindShrink
	}
	c.rescales.WithLabelValues(kind).Inc()
	for part, s := range map[string]float64{
		partSignal: r.SignalS, partSave: r.SaveS, partWait: r.WaitS, partCommit: r.CommitS, partOfStart: r.StartS,
	} {
		c.parts.WithLabelValues(part).Observe(s)
	}
	c.own.Observe(r.OwnS)
	c.lost.Add(float64(max(0, r.LostSteps)))
}

// seen collects what the leader sees.
type seen struct {
	census func(context.Context) (record.Census, bool)
	descs  map[string]*prometheus.Desc
}

func newSeen(census func(context.Context) (record.Census, bool)) *seen {
	return &seen{census: census, descs: descsOf(clusterFamilies())}
}

func descsOf(families []Family) map[string]*prometheus.Desc {
	descs := map[string]*prometheus.Desc{}
	for _, f := range families {
		descs[f.Name] = f.desc()
	}
	return descs
}

// Describe implements prometheus.Collector.
func (s *seen) Describe(to chan<- *prometheus.Desc) { describe(s.descs, to) }

func describe(descs map[string]*prometheus.Desc, to chan<- *prometheus.Desc) {
	for _, d := range descs {
		to <- d
	}
}

// Collect implements prometheus.Collector. Who does not lead has nothing to tell of the cluster.
func (s *seen) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countWithin)
	defer cancel()
	c, ok := s.census(ctx)
	if !ok {
		return
	}
	e := emitter{s.descs, to}
	for _, phase := range cluster.Phases() {
		e.gauge("bellows_jobs", float64(c.Jobs[phase]), string(phase))
	}
	for state, n := range c.Nodes {
		e.gauge("bellows_nodes", float64(n), string(state))
	}
	for state, n := range c.Devices {
		e.gauge("bellows_devices", float64(n), string(state))
	}
	if share, ok := c.Fragmentation(); ok {
		e.gauge("bellows_device_fragmentation_ratio", share)
	}
	for _, j := range c.Active {
		e.job(j)
	}
}

// emitter hands metrics over.
type emitter struct {
	descs map[string]*prometheus.Desc
	to    chan<- prometheus.Metric
}

func (e emitter) gauge(name string, v float64, labels ...string) {
	e.to <- prometheus.MustNewConstMetric(e.descs[name], prometheus.GaugeValue, v, labels...)
}

func (e emitter) job(j record.JobCensus) {
	id := string(j.ID)
	e.gauge("bellows_job_workers", float64(j.Workers), id)
	e.gauge("bellows_job_useful_steps", float64(j.Steps), id)
	e.gauge("bellows_job_trained_seconds", j.Trained.Seconds(), id)
	e.gauge("bellows_job_restarts", float64(j.Restarts), id)
	goodput := 0.0
	if j.Trained > 0 {
		goodput = float64(j.Steps) / j.Trained.Seconds()
	}
	e.gauge("bellows_job_goodput_steps_per_second", goodput, id)
	if j.StepsPerSecond > 0 {
		e.gauge("bellows_job_speed_steps_per_second", j.StepsPerSecond, id)
	}
	if j.GainPredicted > 0 {
		e.gauge("bellows_decision_gain_predicted", j.GainPredicted, id)
	}
	if j.GainMeasured > 0 {
		e.gauge("bellows_decision_gain_measured", j.GainMeasured, id)
	}
}
