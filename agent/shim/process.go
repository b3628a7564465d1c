package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
)

// Boottime returns the time since boot in nanoseconds, the machine's sleep
// included: the clock of Wish.Deadline.
func Boottime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("shim: read CLOCK_BOOTTIME: " + err.Error()) // Linux has it since 2.6.39
	}
	return ts.Nano()
}

// Alive reports whether the process still lives. A zombie is dead.
func Alive(p run.Process) bool {
	if p.PID <= 0 || p.BootID != bootID() {
		return false
	}
	s, err := readStat(p.PID)
	return err == nil && s.start == p.StartTime && s.lives()
}

// identify returns the lasting name of a process that cannot be reaped meanwhile.
func identify(pid int) (run.Process, error) {
	s, err := readStat(pid)
	if err != nil {
		return run.Process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return run.Process{PID: pid, StartTime: s.start, BootID: bootID()}, nil
}

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown" // without /proc nothing else here works either
	}
	return strings.TrimSpace(string(b))
}

// stat is what we look at of /proc/<pid>/stat.
type stat struct {
	pid   int
	comm  string
	state byte
	ppid  int
	// threads tells a process that has ended from one whose first thread has: both
	// are shown as zombies, but the second still computes and holds its files.
	threads int
	start   uint64
}

func (s stat) lives() bool { return s.state != 'X' && (s.state != 'Z' || s.threads > 1) }

// same reports whether two looks have seen the same process.
func (s stat) same(o stat) bool { return s.pid == o.pid && s.start == o.start }

// procfs is the directory at which a proc file system is mounted.
type procfs string

const proc procfs = "/proc"

// file is the path of one of a process's files.
func (p procfs) file(pid int, name string) string {
	return string(p) + "/" + strconv.Itoa(pid) + "/" + name
}

func readStat(pid int) (stat, error) { return proc.stat(pid) }

func (p procfs) stat(pid int) (stat, error) {
	var room [maxStat]byte
	n, err := readOnce(p.file(pid, "stat"), room[:])
	if err != nil {
		return stat{}, err
	}
	b := room[:n]
	// The name may hold anything, also spaces and parentheses.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("parse stat of process %d: %q", pid, string(b)) // a copy: room stays on the stack
	}
	var f [20][]byte // those behind the name, as far as we look at them
	rest := bytes.TrimSpace(b[end+1:])
	for i := range f {
		if f[i], rest, _ = bytes.Cut(rest, []byte{' '}); len(f[i]) == 0 {
			return stat{}, fmt.Errorf("parse stat of process %d: %q", pid, string(b))
		}
	}
	ppid, err1 := strconv.Atoi(string(f[1]))
	threads, err2 := strconv.Atoi(string(f[17]))
	start, err3 := strconv.ParseUint(string(f[19]), 10, 64)
	s := stat{pid: pid, comm: string(b[open+1 : end]), state: f[0][0], ppid: ppid, threads: threads, start: start}
	return s, errors.Join(err1, err2, err3)
}

// maxStat is more than the kernel writes for one process: a name of up to 64 bytes and 51 other fields of up to 20 characters.
const maxStat = 2 << 10

// readOnce reads a file with one read call. The kernel returns a file of /proc that is one record, such as stat, whole
// if there is room for it.
func readOnce(path string, room []byte) (n int, err error) {
	f, err := openPlain(path)
	if err != nil {
		return 0, err
	}
	defer f.close()
	return f.Read(room)
}

// plainFile is a file that is open for reading. os.Open makes five more system calls, to find out whether the file can
// be polled, and a census of the machine opens hundreds of files.
type plainFile struct {
	fd   int
	path string
}

func openPlain(path string) (plainFile, error) {
	fd, err := retried(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return plainFile{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return plainFile{fd, path}, nil
}

// Read implements io.Reader.
func (f plainFile) Read(p []byte) (int, error) {
	n, err := retried(func() (int, error) { return unix.Read(f.fd, p) })
	switch {
	case err != nil:
		return 0, &os.PathError{Op: "read", Path: f.path, Err: err}
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

func (f plainFile) close() { _ = unix.Close(f.fd) } // nothing was written to it

// retried repeats a system call that a signal has interrupted, as package os does: Go's runtime sends signals to its
// own threads.
func retried(call func() (int, error)) (n int, err error) {
	for n, err = call(); errors.Is(err, unix.EINTR); {
		n, err = call()
	}
	return n, err
}

// processes lists all processes of the machine, as far as they do not come and go
// meanwhile. It waits for none of them.
func processes() ([]stat, error) { return proc.processes() }

func (p procfs) processes() ([]stat, error) {
	d, err := os.Open(string(p))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := p.stat(pid); err == nil {
			all = append(all, s)
		}
	}
	return all, nil
}

// children lists the children of this process. It may miss one while another ends. An
// error says that this kernel does not tell (CONFIG_PROC_CHILDREN).
func children() (pids []int, err error) {
	lists, _ := filepath.Glob(string(proc) + "/self/task/*/children") // the pattern is right
	read := 0
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended: its children are another's
		}
		read++
		for field := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	if read == 0 {
		return nil, errors.New("list children: the kernel does not tell")
	}
	return pids, nil
}

// family knows the children of each process in a list.
type family map[int][]stat

func familyOf(all []stat) family {
	f := make(family, len(all))
	for _, s := range all {
		f[s.ppid] = append(f[s.ppid], s)
	}
	return f
}

// descendants returns the living processes whose ancestor is one of the roots, the roots excluded.
func (f family) descendants(roots map[int]bool) []stat {
	var found []stat
	seen := map[int]bool{}
	var walk func(pid int)
	walk = func(pid int) {
		for _, c := range f[pid] {
			if seen[c.pid] {
				continue
			}
			seen[c.pid] = true
			if c.lives() && !roots[c.pid] {
				found = append(found, c)
			}
			walk(c.pid)
		}
	}
	for pid := range roots {
		walk(pid)
	}
	return found
}

// lineage returns a process and its ancestors, without init.
func lineage(pid int) []int {
	const maxDepth = 64 // processes that nest deeper are not a worker's
	pids := []int{pid}
	for len(pids) < maxDepth {
		s, err := readStat(pid)
		if err != nil || s.ppid <= 1 {
			break
		}
		pid = s.ppid
		pids = append(pids, pid)
	}
	return pids
}

// kill sends SIGKILL to exactly this process: a pid that has been reused since is left alone.
func (s stat) kill() error {
	fd, err := unix.PidfdOpen(s.pid, 0)
	send := func() error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case errors.Is(err, unix.ENOSYS): // kernels before 5.3: a bare pid, just looked at
		send = func() error { return unix.Kill(s.pid, unix.SIGKILL) }
	case err != nil:
		return fmt.Errorf("kill process %d: %w", s.pid, err)
	default:
		defer unix.Close(fd) //nolint:errcheck // nothing was written to it
	}
	now, err := readStat(s.pid)
	if err != nil || now.start != s.start {
		return nil // it is gone
	}
	if err := send(); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", s.pid, err)
	}
	return nil
}

func (s stat) String() string { return fmt.Sprintf("pid %d (%s)", s.pid, printable(s.comm)) }

// catches reports whether a process has a handler for the signal; true where it cannot be told.
func catches(pid int, sig unix.Signal) bool {
	b, err := os.ReadFile(proc.file(pid, "status"))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(b)) {
		if mask, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			caught, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err != nil || caught>>(sig-1)&1 == 1
		}
	}
	return true
}
