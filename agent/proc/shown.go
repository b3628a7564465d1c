package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
)

// Catches reports whether a process has a handler for the signal; true where it cannot be told.
func Catches(pid int, sig unix.Signal) bool {
	b, err := os.ReadFile(Root.File(pid, "status"))
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

// Seen is a process as the system shows it to us.
type Seen struct {
	StartTime uint64 // as in Process
	Command   string // as the kernel calls it: the program's name, at most 15 bytes
	UID       uint32 // whom it runs as
}

// Inspect returns what the system shows of a process; false if it shows nothing
// or only what has ended. Nothing that it reads waits for the process.
func Inspect(pid int) (Seen, bool) {
	s, err := ReadStat(pid)
	if err != nil || !s.Lives() {
		return Seen{}, false
	}
	u := Root.UserOf(pid)
	return Seen{StartTime: s.Start, Command: cluster.Printable(s.comm), UID: u.UID}, u.Known
}

// UserOf reads whom a process runs as. It does not wait for the process.
func (p FS) UserOf(pid int) *User {
	b, err := os.ReadFile(p.File(pid, "status"))
	if err != nil {
		return &User{}
	}
	for line := range strings.Lines(string(b)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			first, _, _ := strings.Cut(strings.TrimSpace(ids), "\t")
			uid, err := strconv.ParseUint(first, 10, 32)
			return &User{uint32(uid), err == nil}
		}
	}
	return &User{}
}

// User is whom a process runs as, by its real user; known is false of one that has ended.
type User struct {
	UID   uint32
	Known bool
}

// Openers are the processes other than this one that have the file open, as far as we may see.
func Openers(path string) []Stat {
	all, err := All()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(s Stat) bool {
		dir := "/proc/" + strconv.Itoa(s.PID) + "/fd"
		fds, err := os.ReadDir(dir)
		return err != nil || s.PID == os.Getpid() || !slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
			to, err := os.Readlink(filepath.Join(dir, fd.Name()))
			return err == nil && to == path
		})
	})
}

// Memory is how much memory a process has in the machine's that it shares with no other, in bytes; 0 if it has ended.
func Memory(pid int) int64 {
	b, err := os.ReadFile(Root.File(pid, "statm"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 3 {
		return 0
	}
	all, errAll := strconv.ParseInt(fields[1], 10, 64)
	shared, errShared := strconv.ParseInt(fields[2], 10, 64)
	if errAll != nil || errShared != nil {
		return 0
	}
	return max(0, all-shared) * int64(os.Getpagesize())
}

// Written is how many bytes a process has written in its life; -1 if the kernel does not tell.
func Written(pid int) int64 {
	b, err := os.ReadFile(Root.File(pid, "io"))
	if err != nil {
		return -1
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("wchar: ")); ok {
			n := int64(0)
			for _, digit := range bytes.TrimSpace(rest) {
				n = 10*n + int64(digit-'0')
			}
			return n
		}
	}
	return -1
}
