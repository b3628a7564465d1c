// Package pollux follows the conventions of Pollux's simulator (Qiao et al.,
// OSDI 2021), for the two policies that its authors compare theirs with.
//
// New returns sim.Rules and the jobs as that simulator sees them, from the
// measurements that it ships. Between measurements it interpolates as its
// authors do; outside of them the run ends with an error. The rules keep no
// clock and read no file, and the same trace gives the same decisions.
package pollux
