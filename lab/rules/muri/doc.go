// Package muri follows the conventions of Muri's simulator (Zhao et al.,
// SIGCOMM 2022), so that its published numbers can be compared with a run here.
//
// New returns sim.Rules and the jobs as Muri counts them. The rules decide
// which jobs run and when they end; the coordinator carries that out. They keep
// no clock and read no file, and the same trace gives the same decisions.
package muri
