// Package follow shows a job while it runs and ends as the job does.
//
// It promises that each change of phase or size is told once, that a line which cannot be written
// does not hold up the job and is counted, that Ctrl-C never stops a job unless its owner answers
// that it should, and that the exit status of a job that was not completed is not zero.
package follow
