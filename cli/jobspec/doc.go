// Package jobspec makes a job's spec of what its submitter writes: the flags of a command or a
// YAML file, the environment, and the folder that the job is submitted from.
//
// It promises that all faults of an input are reported at once, each with the flag or with the
// line of the file and with what to write instead; that a spec it returns is complete and valid;
// and that what can be tried here as the submitter, such as finding the interpreter or writing to
// the checkpoint directory, has been tried. The nodes check again before they start the job.
//
// The fields of a spec are one table (fields.go), for flags, file and faults alike.
package jobspec
