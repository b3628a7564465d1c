// Package saxena follows the conventions of the simulator of Saxena et al., "Effective
// Elastic Scaling of Deep Learning Workloads" (MASCOTS 2020), which is not public.
//
// New returns sim.Rules for their elastic scaling and their baseline, with queueing and
// with drops, and Terms lets policies of production run the same jobs. Draw draws their
// load. What the paper does not print is an input that category.go and load.go name. The rules
// keep no clock and read no file, and the same trace gives the same decisions.
package saxena
