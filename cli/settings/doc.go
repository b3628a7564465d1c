// Package settings declares every setting of an agent and of a coordinator, checks them, and
// completes them by what the machine says.
//
// It promises that a setting is declared once, as a flag: its variable, its key in a file, its help
// and its bounds follow. A value comes from the command line, else the environment, else the file,
// else the default. All faults are reported at once, each with the place that the value came from
// and what to write instead.
package settings
