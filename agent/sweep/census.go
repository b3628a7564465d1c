package sweep

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
)

// What a process shows of itself is read from its memory. The kernel lets a reader
// wait for as long as another thread holds that memory's lock, which one in state D
// may do for ever, and a process may say that all of its memory is its environment.
const (
	// readersAtOnce is how many processes are read at the same time, apart from
	// those whose read takes longer than slowRead: the others do not wait for them.
	readersAtOnce = 8
	slowRead      = 50 * time.Millisecond
	// readWait is how long a census waits for the last answers. What a process
	// shows later is not known.
	readWait = 2 * time.Second
	// maxReads is how many reads may be unfinished, of all censuses together: each
	// takes a thread. A process that is being read is not read a second time.
	maxReads = 256
	// maxReadsOfUser is how many of these may be of processes of one user, other than
	// this process's own: a user whose processes hang leaves places for the others'.
	maxReadsOfUser = 16
	// maxShown bounds what is read of one environment: more than the kernel gives
	// any process at its start.
	maxShown = 8 << 20
	// maxNames is how many run directories one process may name. A worker names one.
	maxNames = 16
	// maxCommandLine is more than the command line of a shim ever takes.
	maxCommandLine = 16 << 10
)

// listing is what a look at /proc and at the cgroups tells without waiting for any
// process. It is never changed once it is there.
type listing struct {
	procs  []proc.Stat
	family proc.Family
	groups []namedGroup // those that bear a run's name, whichever run's
}

// census is a listing and what each process shows of itself. It is never changed
// once it is there.
type census struct {
	*listing

	shows map[int]shown // of each living process but this one, by pid
}

// shown is what a process shows of itself. A process can show what it likes.
type shown struct {
	hosts string   // the directory of the run that it hosts, by its command line
	names []string // the directories of the runs that it names in its environment
	err   error    // why neither is known
}

// ErrNoAnswer is why it is not known what a process shows that the kernel does not
// let be read.
var ErrNoAnswer = errors.New("the kernel does not let its memory be read, as in state D")

// observer finds out what runs on the machine.
type observer struct {
	proc     proc.FS
	listings batched[*listing]
	censuses batched[*census]

	mu    sync.Mutex
	reads map[readKey]*proc.User // unfinished; nil = not looked up yet
}

// readKey names a process for as long as the machine runs.
type readKey struct {
	pid   int
	start uint64
}

// observed is what all sweeps of this process ask.
var observed = newObserver(proc.Root)

func newObserver(p proc.FS) *observer {
	o := &observer{proc: p, reads: map[readKey]*proc.User{}}
	o.listings.find = o.list
	o.censuses.find = o.take
	return o
}

// listing is one that begins after the call.
func (o *observer) listing() (*listing, error) { return o.listings.get() }

// census returns one that begins after the call. It takes readWait and a little longer at
// most, whatever processes do.
func (o *observer) census() (*census, error) { return o.censuses.get() }

func (o *observer) list() (*listing, error) {
	all, err := o.proc.All()
	if err != nil {
		return nil, err
	}
	return &listing{procs: all, family: proc.FamilyOf(all), groups: namedGroups()}, nil
}

func (o *observer) take() (*census, error) {
	l, err := o.list()
	if err != nil {
		return nil, err
	}
	return &census{listing: l, shows: o.ask(l.procs)}, nil
}

// ask reads what each process shows, each at most once.
func (o *observer) ask(procs []proc.Stat) map[int]shown {
	type answer struct {
		pid int
		shown
	}
	answers := make(chan answer, len(procs)) // late ones find room, too
	readers := make(chan struct{}, readersAtOnce)
	shows := make(map[int]shown, len(procs))
	waiting := 0
	for _, p := range procs {
		if p.PID == os.Getpid() || !p.Lives() {
			continue
		}
		shows[p.PID] = shown{err: ErrNoAnswer}
		readers <- struct{}{} // taken out after slowRead at the latest
		if !o.begin(p) {
			<-readers
			continue
		}
		waiting++
		go func() {
			leave := sync.OnceFunc(func() { <-readers })
			slow := time.AfterFunc(slowRead, leave)
			s := showsOf(o.proc, p)
			slow.Stop()
			leave()
			o.end(p)
			answers <- answer{p.PID, s}
		}()
	}
	for late := time.After(readWait); waiting > 0; waiting-- {
		select {
		case a := <-answers:
			shows[a.pid] = a.shown
		case <-late:
			return shows
		}
	}
	return shows
}

// begin reports whether a process may be read: there is a bound on unfinished reads,
// one on those of a user, and a process that has not answered an earlier census is not
// asked once more.
func (o *observer) begin(p proc.Stat) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := readKey{p.PID, p.Start}
	if _, busy := o.reads[key]; busy || len(o.reads) >= maxReads || o.hasItsShare(p.PID) {
		return false
	}
	o.reads[key] = nil
	return true
}

// hasItsShare reports whether a process's user has as many unfinished reads as one user
// may have. Users are looked up only where that is possible. The caller holds the lock.
func (o *observer) hasItsShare(pid int) bool {
	if len(o.reads) < maxReadsOfUser {
		return false
	}
	its := o.proc.UserOf(pid)
	if !its.Known || int(its.UID) == os.Geteuid() {
		return false
	}
	n := 0
	for key, u := range o.reads {
		if u == nil {
			u = o.proc.UserOf(key.pid)
			o.reads[key] = u
		}
		if *u == *its {
			n++
		}
	}
	return n >= maxReadsOfUser
}

func (o *observer) end(p proc.Stat) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.reads, readKey{p.PID, p.Start})
}

// showsOf reads what a process shows, and may never return. One that has ended
// meanwhile shows nothing.
func showsOf(p proc.FS, of proc.Stat) shown {
	dir := readsBy(p, of)
	var s shown
	var errs [2]error
	s.hosts, errs[0] = readFrom(dir+"cmdline", maxCommandLine, hostOf)
	s.names, errs[1] = readFrom(dir+"environ", maxShown, namesIn)
	for _, err := range errs {
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			s.err = err
		}
	}
	return s
}

// readsBy is the directory of the thread to read a process by: a first thread that
// has ended shows nothing any more, while others of the process still run.
func readsBy(p proc.FS, of proc.Stat) string {
	dir := p.File(of.PID, "")
	if of.State != 'Z' {
		return dir
	}
	tasks := proc.FS(p.File(of.PID, "task"))
	threads, _ := tasks.All() // what cannot be listed cannot be read either
	for _, t := range threads {
		if t.State != 'Z' && t.State != 'X' {
			return tasks.File(t.PID, "")
		}
	}
	return dir
}

func readFrom[T any](path string, most int64, parse func(io.Reader) (T, error)) (v T, err error) {
	f, err := proc.OpenPlain(path)
	if err != nil {
		return v, err
	}
	defer f.Close()
	return parse(io.LimitReader(f, most))
}

// hostOf is the directory of the run that the process with this command line hosts;
// empty if it is no shim. Its path is as Start writes it: one that is written
// otherwise could name another run's directory, or one that is no run's.
func hostOf(commandLine io.Reader) (string, error) {
	b, err := io.ReadAll(commandLine)
	argv := strings.SplitN(string(b), "\x00", 5)
	if err != nil || len(argv) < 4 || argv[1] != "shim" || argv[2] != "--dir" || !isWholePath(argv[3]) {
		return "", err
	}
	return argv[3], nil
}

// environments holds the buffers of namesIn, which a census calls for each process of the machine.
var environments = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 8<<10) }} // longer than any path

// namesIn lists the directories of the runs whose worker sockets an environment names.
func namesIn(environment io.Reader) ([]string, error) {
	var names []string
	entries := environments.Get().(*bufio.Reader) //nolint:forcetypeassert // as New makes them
	entries.Reset(environment)
	defer func() { entries.Reset(nil); environments.Put(entries) }()
	for tooLong := false; len(names) < maxNames; {
		entry, err := entries.ReadSlice(0)
		socket, ours := bytes.CutPrefix(bytes.TrimSuffix(entry, []byte{0}), []byte(run.SocketVariable+"="))
		if ours && !tooLong && !errors.Is(err, bufio.ErrBufferFull) {
			path := string(socket)
			dir := filepath.Dir(path)
			if isWholePath(path) && filepath.Base(path) == run.WorkerSocket && !slices.Contains(names, dir) {
				names = append(names, dir)
			}
		}
		switch tooLong = errors.Is(err, bufio.ErrBufferFull); {
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil && !tooLong:
			return names, err
		}
	}
	return names, nil
}

// isWholePath reports whether a path is absolute, and written in the one way in
// which an agent writes it.
func isWholePath(path string) bool { return filepath.IsAbs(path) && filepath.Clean(path) == path }

// namedGroup is a cgroup that bears a run's name.
type namedGroup struct {
	run  string // as rundir.Name has it
	path string
	kind string // of containment, that has its groups there; "" = none
}

// namedGroups looks through all cgroups that this process sees for those that bear
// the name of a run. Users who have cgroups to themselves can make one of any name:
// theirs do not count.
func namedGroups() []namedGroup {
	mounts, err := contain.Mounts()
	if err != nil {
		return nil // listing the processes complains of a /proc that cannot be read
	}
	var found []namedGroup
	for _, m := range mounts {
		contain.EachGroup(m.Dir, func(path string) {
			if run := rundir.RunNamed(filepath.Base(path)); run != "" && madeByUs(path) {
				found = append(found, namedGroup{run, path, m.Kind})
			}
		})
	}
	return found
}

// batched has those who ask at the same time share one answer, which is begun after
// the last of them has asked. At most one answer is worked out at a time.
type batched[T any] struct {
	find func() (T, error)

	mu   sync.Mutex
	busy bool
	next *pending[T] // the answer to be worked out next; nil = nothing was asked
}

type pending[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func (s *batched[T]) get() (T, error) {
	s.mu.Lock()
	if s.next == nil {
		s.next = &pending[T]{done: make(chan struct{})}
	}
	mine := s.next
	if !s.busy {
		s.busy = true
		go s.work()
	}
	s.mu.Unlock()
	<-mine.done
	return mine.value, mine.err
}

// work answers until nothing more is asked.
func (s *batched[T]) work() {
	for {
		s.mu.Lock()
		now := s.next
		s.next, s.busy = nil, now != nil
		s.mu.Unlock()
		if now == nil {
			return
		}
		now.value, now.err = s.find()
		close(now.done)
	}
}

// errHidden says that a process may be a run's and does not show it.
func errHidden(p proc.Stat, why error) error {
	remedy := "end it, or run the agent as root with CAP_SYS_PTRACE"
	if !errors.Is(why, os.ErrPermission) {
		remedy = "end it, or reboot the node"
	}
	return fmt.Errorf("%s does not show whether it belongs to the run (%w): %s", p, why, remedy)
}
