// Package metrics shows what an agent or a coordinator is doing to Prometheus:
// one set of metrics for each, served as text over HTTP at /metrics.
//
// It promises that watching costs those who are watched nothing: what they tell
// is added to a counter, and what is counted on demand they hand out when they
// have nothing better to do, or have handed out before. A coordinator counts the
// whole cluster, and only while it leads, so that a sum over all of them counts
// everything once; an agent counts its own node. Every metric is in the list that
// Families returns, from which docs/metrics.md is made.
//
// There is no password and no TLS: every client that reaches the address may read names of
// jobs and nodes and how they do, as every user of `bellows ps` may.
package metrics
