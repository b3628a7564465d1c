// Package run decides what is done about one run: the part of a job's generation on one node.
package run
