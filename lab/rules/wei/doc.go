// Package wei has the experiment of Wei and Shudo, "Adaptive Allocation of Computing
// Resources for Multiple Distributed Deep Learning Tasks" (2020): tasks of one kind that
// begin one after the other, whose losses tell how far they have come.
//
// Read makes the jobs of one of Loads, and the terms under which policies of production
// decide about them: share stands for the paper's training without adjustment (two and
// two processes), convergence for that with it (three and one). What the paper does not
// print is an input that load.go and rates.go name. There are no clock, no file and no
// chance: a load is the same each time.
package wei
