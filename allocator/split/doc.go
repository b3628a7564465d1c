// Package split shares devices out among jobs for the highest sum of values.
//
// Each job takes exactly one of its options, a number of devices with a value. Best is
// exact: the dynamic program of Saxena et al. (MASCOTS 2020, section III-C, recurrence 4).
// Hull is fast, exact where values are concave and sizes go up by one, and comes with a
// certified bound everywhere. Both are pure, and equal problems have equal answers.
package split
