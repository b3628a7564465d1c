package blobtest

import (
	"errors"
	"sync"

	"github.com/bellows-ml/bellows/checkpoint"
)

// ErrDead is what every operation of a dead process returns.
var ErrDead = errors.New("the process is dead")

// Faulty is Blobs of which one operation goes wrong. Each List, Open, Sync,
// Read, Put and Delete counts as one, from 0. Safe for concurrent use.
type Faulty struct {
	checkpoint.Blobs
	At  int   // which operation goes wrong; -1 = none
	Err error // what it returns; with ErrDead, so does each one after it
	// Done: a Put or Delete that goes wrong has done its work all the same, as
	// when a process is killed before it hears of it.
	Done bool

	mu  sync.Mutex
	ops int
}

// Ops returns how many operations there were.
func (f *Faulty) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// next counts an operation and says how it goes wrong, and whether it is the one that At means.
func (f *Faulty) next() (it bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.ops
	f.ops++
	if f.At >= 0 && (n == f.At || n > f.At && errors.Is(f.Err, ErrDead)) {
		return n == f.At, f.Err
	}
	return false, nil
}

// List implements checkpoint.Blobs.
func (f *Faulty) List(dir string) ([]checkpoint.Entry, error) {
	if _, err := f.next(); err != nil {
		return nil, err
	}
	return f.Blobs.List(dir)
}

// Open implements checkpoint.Blobs.
func (f *Faulty) Open(name string) (checkpoint.File, error) {
	if _, err := f.next(); err != nil {
		return nil, err
	}
	file, err := f.Blobs.Open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, f: f}, nil
}

// Put implements checkpoint.Blobs.
func (f *Faulty) Put(name string, data []byte) error {
	return f.change(func() error { return f.Blobs.Put(name, data) })
}

// Delete implements checkpoint.Blobs.
func (f *Faulty) Delete(dir string) error {
	return f.change(func() error { return f.Blobs.Delete(dir) })
}

func (f *Faulty) change(do func() error) error {
	it, wrong := f.next()
	if wrong == nil {
		return do()
	}
	if it && f.Done {
		return errors.Join(wrong, do())
	}
	return wrong
}

type faultyFile struct {
	checkpoint.File
	f *Faulty
}

// Read implements io.Reader.
func (f *faultyFile) Read(p []byte) (int, error) {
	if _, err := f.f.next(); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

// Sync implements checkpoint.File.
func (f *faultyFile) Sync() error {
	if _, err := f.f.next(); err != nil {
		return err
	}
	return f.File.Sync()
}
