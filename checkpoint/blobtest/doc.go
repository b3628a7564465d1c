// Package blobtest is the suite that every checkpoint.Blobs has to pass, and
// the tools to break one: Faulty lets operations fail or the process die at any
// point, Disk is a disk in memory whose power can be cut.
//
// It promises that Blobs which pass keep what a checkpoint needs: an older
// checkpoint survives whatever happens while a newer one is written, a newer
// one is offered only if it will verify, and no name leads outside.
package blobtest
