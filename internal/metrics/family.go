package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is the type of a metric, as Prometheus has it.
type Kind string

// The kinds in use.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Role is whose metrics they are.
type Role string

// The roles.
const (
	AgentRole       Role = "agent"
	CoordinatorRole Role = "coordinator"
)

// Family is one metric.
type Family struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
	Of     []Role // who shows it
}

// Families lists every metric of Bellows's own, in the order of docs/metrics.md.
func Families() []Family {
	both := []Role{AgentRole, CoordinatorRole}
	return slices.Concat([]Family{
		{"bellows_build_info", Gauge, []string{"goversion", "role", "version"}, "Always 1: which build this is.", both},
		{"bellows_etcd_call_seconds", Histogram, []string{"call", "result"}, "How long calls of etcd took, as their caller saw it: txn, list (a page), get, grant, renew, revoke, status.", both},
		{"bellows_certificate_end_timestamp_seconds", Gauge, nil, "When this node's certificate (--tls-dir) ends, in seconds since 1970; absent without one.", both},
	}, clusterFamilies(), leaderFamilies(), nodeFamilies())
}

// clusterFamilies are counted by the coordinator that leads.
func clusterFamilies() []Family {
	leader := []Role{CoordinatorRole}
	return []Family{
		{"bellows_jobs", Gauge, []string{"phase"}, "Jobs by phase; those that have ended as long as their records are kept.", leader},
		{"bellows_nodes", Gauge, []string{"state"}, "Nodes: alive, cordoned (alive, gets no new work) or gone.", leader},
		{"bellows_devices", Gauge, []string{"state"}, "Devices: free, used, unfit (unhealthy or cordoned, and not in use) or gone with their node.", leader},
		{"bellows_device_fragmentation_ratio", Gauge, nil, "Share of the free devices that lie on nodes of which others are in use, so that no job of a whole node can have them; absent where none is free.", leader},
		{"bellows_job_workers", Gauge, []string{"job"}, "World size of a job that starts, runs or halts.", leader},
		{"bellows_job_useful_steps", Gauge, []string{"job"}, "Optimiser steps of such a job that count: what was lost and done again counts once.", leader},
		{"bellows_job_trained_seconds", Gauge, []string{"job"}, "How long such a job has had workers, over all generations: starting, loading and saving count, waiting does not.", leader},
		{"bellows_job_goodput_steps_per_second", Gauge, []string{"job"}, "Useful steps over trained seconds.", leader},
		{"bellows_job_speed_steps_per_second", Gauge, []string{"job"}, "Steps a second as the ranks report them for the present generation; absent where they report none.", leader},
		{"bellows_decision_gain_predicted", Gauge, []string{"job"}, "By which factor the last change of the job's size was predicted to change its speed; absent where nothing was.", leader},
		{"bellows_decision_gain_measured", Gauge, []string{"job"}, "By which factor it did; absent until both sizes are measured.", leader},
		{"bellows_job_restarts", Gauge, []string{"job"}, "Failures charged against the job's --max-restarts.", leader},
	}
}

// leaderFamilies are about a coordinator itself and what it has done.
func leaderFamilies() []Family {
	leader := []Role{CoordinatorRole}
	return []Family{
		{"bellows_leader", Gauge, nil, "1 if this coordinator leads, else 0.", leader},
		{"bellows_terms_total", Counter, nil, "How often this coordinator began to lead.", leader},
		{"bellows_leader_step_seconds", Histogram, nil, "How long the leader took to decide what follows from what it has heard.", leader},
		{"bellows_decision_seconds", Histogram, nil, "How long the policy took to answer.", leader},
		{"bellows_decision_failures_total", Counter, nil, "Answers of the policy that were refused or did not come.", leader},
		{"bellows_rescales_total", Counter, []string{"kind"}, "Generations that came to run: start, grow, shrink, or move (as many workers as before).", leader},
		{"bellows_rescale_seconds", Histogram, []string{"part"}, "What those cost, by part: signal, save, wait (for a lost node), commit, start; all together it is the downtime.", leader},
		{"bellows_rescale_own_seconds", Histogram, nil, "Bellows's own share of that: signal, commit and start up to the first worker.", leader},
		{"bellows_lost_steps_total", Counter, nil, "Optimiser steps that were begun, not saved, and done again.", leader},
	}
}

// nodeFamilies are an agent's, of its own node.
func nodeFamilies() []Family {
	agent := []Role{AgentRole}
	return []Family{
		{"bellows_node_in_cluster", Gauge, nil, "1 if the node is in the cluster, else 0.", agent},
		{"bellows_node_lease_age_seconds", Gauge, nil, "How long ago the node's lease was renewed; workers end when that becomes 7.5 s, unless the node is alone.", agent},
		{"bellows_node_workers", Gauge, nil, "Worker processes on this node.", agent},
		{"bellows_node_devices", Gauge, []string{"state"}, "Devices of this node: free, used or unfit.", agent},
		{"bellows_gossip_members", Gauge, []string{"state"}, "Nodes as this one hears of them: alive, dead or left.", agent},
		{"bellows_gossip_health_score", Gauge, nil, "How badly this node keeps up with gossip: 0 is well.", agent},
		{"bellows_device_busy_ratio", Gauge, []string{"device"}, "Share of the driver's last sample period in which a kernel ran.", agent},
		{"bellows_device_memory_used_bytes", Gauge, []string{"device"}, "Memory in use on a device.", agent},
		{"bellows_device_temperature_celsius", Gauge, []string{"device"}, "Temperature of a device.", agent},
	}
}

// family finds one; asking for another than those listed is a programming error.
func family(name string) Family {
	all := Families()
	i := slices.IndexFunc(all, func(f Family) bool { return f.Name == name })
	if i < 0 {
		panic("metrics: no family " + name)
	}
	return all[i]
}

func (f Family) desc() *prometheus.Desc { return prometheus.NewDesc(f.Name, f.Help, f.Labels, nil) }

func counter(name string) prometheus.Counter {
	f := family(name)
	return prometheus.NewCounter(prometheus.CounterOpts{Name: f.Name, Help: f.Help})
}

func gauge(name string) prometheus.Gauge {
	f := family(name)
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: f.Name, Help: f.Help})
}

func counters(name string) *prometheus.CounterVec {
	f := family(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help}, f.Labels)
}

func histogram(name string, buckets []float64) prometheus.Histogram {
	f := family(name)
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: f.Name, Help: f.Help, Buckets: buckets})
}

func histograms(name string, buckets []float64) *prometheus.HistogramVec {
	f := family(name)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.Name, Help: f.Help, Buckets: buckets}, f.Labels)
}

// callBuckets are for what takes milliseconds when all is well: 0.5 ms to 4 s, and more.
func callBuckets() []float64 { return prometheus.ExponentialBuckets(0.0005, 2, 14) }

// stepBuckets are for what a processor does: 10 µs to 10 s.
func stepBuckets() []float64 { return prometheus.ExponentialBuckets(0.00001, 4, 11) }

// rescaleBuckets are for what includes people's scripts: 10 ms to 5 min, and more.
func rescaleBuckets() []float64 { return prometheus.ExponentialBuckets(0.01, 2, 16) }
