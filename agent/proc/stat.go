package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
)

// Stat is what we look at of /proc/<pid>/stat.
type Stat struct {
	PID   int
	comm  string
	State byte
	PPID  int
	// threads tells a process that has ended from one whose first thread has: both
	// are shown as zombies, but the second still computes and holds its files.
	threads int
	Start   uint64
}

// Lives reports whether the process has not ended yet.
func (s Stat) Lives() bool { return s.State != 'X' && (s.State != 'Z' || s.threads > 1) }

// Same reports whether two looks have seen the same process.
func (s Stat) Same(o Stat) bool { return s.PID == o.PID && s.Start == o.Start }

// FS is the directory at which a proc file system is mounted.
type FS string

// Root is where it is mounted for this process.
const Root FS = "/proc"

// File is the path of one of a process's files.
func (p FS) File(pid int, name string) string {
	return string(p) + "/" + strconv.Itoa(pid) + "/" + name
}

// ReadStat looks at a process of Root.
func ReadStat(pid int) (Stat, error) { return Root.Stat(pid) }

// Stat looks at a process. An error says that it is gone, or that there is no /proc.
func (p FS) Stat(pid int) (Stat, error) {
	var room [maxStat]byte
	n, err := readOnce(p.File(pid, "stat"), room[:])
	if err != nil {
		return Stat{}, err
	}
	b := room[:n]
	// The name may hold anything, also spaces and parentheses.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return Stat{}, fmt.Errorf("parse stat of process %d: %q", pid, string(b)) // a copy: room stays on the stack
	}
	var f [20][]byte // those behind the name, as far as we look at them
	rest := bytes.TrimSpace(b[end+1:])
	for i := range f {
		if f[i], rest, _ = bytes.Cut(rest, []byte{' '}); len(f[i]) == 0 {
			return Stat{}, fmt.Errorf("parse stat of process %d: %q", pid, string(b))
		}
	}
	ppid, err1 := strconv.Atoi(string(f[1]))
	threads, err2 := strconv.Atoi(string(f[17]))
	start, err3 := strconv.ParseUint(string(f[19]), 10, 64)
	s := Stat{PID: pid, comm: string(b[open+1 : end]), State: f[0][0], PPID: ppid, threads: threads, Start: start}
	return s, errors.Join(err1, err2, err3)
}

// maxStat is more than the kernel writes for one process: a name of up to 64 bytes and 51 other fields of up to 20 characters.
const maxStat = 2 << 10

// readOnce reads a file with one read call. The kernel returns a file of /proc that is one record, such as stat, whole
// if there is room for it.
func readOnce(path string, room []byte) (n int, err error) {
	f, err := OpenPlain(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Read(room)
}

// PlainFile is a file that is open for reading. os.Open makes five more system calls, to find out whether the file can
// be polled, and a census of the machine opens hundreds of files.
type PlainFile struct {
	fd   int
	path string
}

// OpenPlain opens a file for reading. The caller closes it.
func OpenPlain(path string) (PlainFile, error) {
	fd, err := retried(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return PlainFile{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return PlainFile{fd, path}, nil
}

// Read implements io.Reader.
func (f PlainFile) Read(p []byte) (int, error) {
	n, err := retried(func() (int, error) { return unix.Read(f.fd, p) })
	switch {
	case err != nil:
		return 0, &os.PathError{Op: "read", Path: f.path, Err: err}
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Close ends the use of the file.
func (f PlainFile) Close() { _ = unix.Close(f.fd) } // nothing was written to it

// retried repeats a system call that a signal has interrupted, as package os does: Go's runtime sends signals to its
// own threads.
func retried(call func() (int, error)) (n int, err error) {
	for n, err = call(); errors.Is(err, unix.EINTR); {
		n, err = call()
	}
	return n, err
}

// All lists all processes of the machine, as far as they do not come and go
// meanwhile. It waits for none of them.
func All() ([]Stat, error) { return Root.All() }

// All lists all processes, as far as they do not come and go meanwhile. It waits for none of them.
func (p FS) All() ([]Stat, error) {
	d, err := os.Open(string(p))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []Stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := p.Stat(pid); err == nil {
			all = append(all, s)
		}
	}
	return all, nil
}

func (s Stat) String() string { return fmt.Sprintf("pid %d (%s)", s.PID, cluster.Printable(s.comm)) }
