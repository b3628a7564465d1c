// Package reproduce repeats published experiments in the simulator and puts each
// figure next to the published one.
//
// An experiment is a list of trials. A trial is a command of bellows-lab simulate,
// as a person would type it, and what is read from its runs: so that each figure
// of a Report can be made again by hand. The fields of Report are a contract.
package reproduce
