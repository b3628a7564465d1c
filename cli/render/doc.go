// Package render shows what the API answers to people: jobs, nodes, devices, events, log lines,
// and the course of a job while it runs.
//
// It promises that each page is a function of the answer and of a View (the terminal, the time and
// its zone), so that a page can be compared with a file; that a field without a value takes no
// room; and that a text from elsewhere reaches a terminal only through cli/output, which
// makes it safe. What is written as JSON or YAML is the answer itself and does not pass through here.
package render
