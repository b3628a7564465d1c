package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/record"
)

const (
	// recordedPipe is where the first worker of a node writes the names of the modules that it imports.
	recordedPipe = "modules"
	// recordedRoom is how many bytes may wait there to be read, if the system allows it: more than
	// any script imports from one look to the next.
	recordedRoom = 1 << 20
	// Bounds of what is kept of these. PyTorch with all that it loads for its first steps has 2,500.
	maxModules    = 20_000
	maxModuleName = 200
	// maxAvoided bounds the modules that were found not to be for launchers.
	maxAvoided = 2_000
)

// moduleName is what may be a module's name. Those of scripts in other alphabets are
// imported by the workers themselves.
var moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// notForLaunchers are modules that are the interpreter's or the run's own.
var notForLaunchers = []string{"__main__", "__mp_main__", "bellows", "bellows_launcher", "bellows_verify", "site", "sitecustomize", "usercustomize"}

// moduleList is what is known of a job's imports on this node, from one generation to
// the next. All of it comes from processes of the job's owner.
type moduleList struct {
	Version int      `json:"version"`
	Modules []string `json:"modules"` // in the order in which they were imported
	// Avoid are those that a launcher must not import, with why.
	Avoid map[string]string `json:"avoid,omitempty"`
	// Meets says that the workers were seen to meet at MASTER_PORT.
	Meets bool `json:"meets,omitempty"`
}

// add takes names in that are not known yet, and are names.
func (l *moduleList) add(names []string) {
	known := map[string]bool{}
	for _, name := range append(slices.Clone(notForLaunchers), l.Modules...) {
		known[name] = true
	}
	for _, name := range names {
		if len(l.Modules) >= maxModules {
			return
		}
		if !known[name] && len(name) <= maxModuleName && moduleName.MatchString(name) {
			known[name] = true
			l.Modules = append(l.Modules, name)
		}
	}
}

// avoid takes in what a launcher has found out.
func (l *moduleList) avoid(names map[string]string) {
	for name, why := range names {
		if len(name) > maxModuleName || !moduleName.MatchString(name) || len(l.Avoid) >= maxAvoided {
			continue
		}
		if l.Avoid == nil {
			l.Avoid = map[string]string{}
		}
		l.Avoid[name] = printable(why[:min(len(why), maxModuleName)])
	}
}

// readModules reads a list; one that is not there, or cannot be read, is empty.
func readModules(path string) moduleList {
	var on moduleList
	if path == "" {
		return on.checked()
	}
	if info, err := os.Stat(path); err != nil || info.Size() > record.MaxModules || readJSON(path, &on) != nil {
		on = moduleList{}
	}
	return on.checked()
}

// checked is what of a list may be used: names, within bounds; nothing of another version's.
func (l moduleList) checked() moduleList {
	c := moduleList{Version: ProtocolVersion}
	if l.Version == ProtocolVersion {
		c.add(l.Modules)
		c.avoid(l.Avoid)
		c.Meets = l.Meets
	}
	return c
}

// KnowsModules reports whether an Order.ModulesFile names modules.
func KnowsModules(path string) bool { return len(readModules(path).Modules) > 0 }

// TakeModules makes an Order.ModulesFile of another node's, durable. Of what it names only
// names are taken, and no more than a file may have.
func TakeModules(path string, text []byte) error {
	var theirs moduleList
	if len(text) > record.MaxModules {
		return fmt.Errorf("take names of modules from another node: %d bytes, more than %d", len(text), record.MaxModules)
	}
	if err := json.Unmarshal(text, &theirs); err != nil {
		return fmt.Errorf("take names of modules from another node: %w", err)
	}
	l := theirs.checked()
	if len(l.Modules) == 0 {
		return errors.New("take names of modules from another node: it has none that this version can use")
	}
	return writeDurable(path, l)
}

// recorded are the names that the first worker has written, to a pipe without a reader that waits: what is
// in it and not read yet is bounded by the kernel, what was read by record.MaxModules, and no disk holds any of it.
type recorded struct {
	path    string
	fd      int // -1 = nothing is read any more
	size    int // bytes that were read
	partial []byte
	names   []string
}

// makeRecorded makes the pipe, to which the workers' owner may write.
func makeRecorded(dir string, id identity) (*recorded, error) {
	r := &recorded{path: filepath.Join(dir, recordedPipe), fd: -1}
	err := unix.Mkfifo(r.path, 0o600)
	if err == nil { // for both, so that it has no end before the first writer
		r.fd, err = unix.Open(r.path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		_, _ = unix.FcntlInt(uintptr(r.fd), unix.F_SETPIPE_SZ, recordedRoom) //nolint:gosec // a descriptor
		if id.cred != nil {
			err = unix.Lchown(r.path, int(id.cred.Uid), int(id.cred.Gid))
		}
	}
	if err != nil {
		r.close()
		return nil, fmt.Errorf("make the pipe for modules' names: %w", err)
	}
	return r, nil
}

// errTooManyNames is told once.
var errTooManyNames = fmt.Errorf("a worker has written more than %d MiB of names of modules: what follows is not read", record.MaxModules>>20)

// read takes in what was written up to now. It does not wait.
func (r *recorded) read() error {
	b := make([]byte, 64<<10)
	for r.fd >= 0 {
		n, err := unix.Read(r.fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN) || err == nil && n == 0:
			return nil
		case err != nil:
			r.close()
			return fmt.Errorf("read modules' names: %w", err)
		}
		r.add(b[:min(n, record.MaxModules-r.size)])
		if r.size += n; r.size > record.MaxModules {
			r.close()
			return errTooManyNames
		}
	}
	return nil
}

// add takes in the whole lines of what was read, as far as they may be names.
func (r *recorded) add(b []byte) {
	for line := range bytes.Lines(b) {
		name, whole := bytes.CutSuffix(line, []byte("\n"))
		if len(r.partial) <= maxModuleName {
			r.partial = append(r.partial, name[:min(len(name), maxModuleName+1)]...)
		}
		if !whole {
			return
		}
		if len(r.names) < maxModules && len(r.partial) <= maxModuleName {
			r.names = append(r.names, string(r.partial))
		}
		r.partial = r.partial[:0]
	}
}

// close ends the reading: who writes then is told so by an error.
func (r *recorded) close() {
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
		r.fd = -1
	}
	_ = unix.Unlink(r.path)
}

// keepModules adds what the first worker has imported to the job's list, and whether workers
// have met at the port. It reports whether there was anything to add.
func keepModules(names []string, path string, port int) (added bool, err error) {
	if len(names) == 0 {
		return false, nil
	}
	l := readModules(path)
	before, met := len(l.Modules), l.Meets
	l.add(names)
	l.Meets = met || port != 0 && meetAt(port)
	if len(l.Modules) == before && l.Meets == met {
		return false, nil
	}
	return true, writeDurable(path, l)
}

// nextKept is how long it takes until a list is added to again: not long while a script still imports, for
// a rescale soon after its start imports what is in the list by then.
func nextKept(pause time.Duration, added bool) time.Duration {
	if added {
		return firstKept
	}
	return min(2*pause, lastKept)
}

const (
	firstKept = 2 * time.Second
	lastKept  = 10 * time.Minute
)

// moduleKeeper adds to the job's list what its workers import, while they run and when
// they have ended. The loop owns it.
type moduleKeeper struct {
	*shared
	*reporter

	pause, next int64
	stepped     bool      // a step was reported, before which a script has imported most of what it needs
	recorded    *recorded // what the first worker has written
	kept        int       // bytes of it that are in the list
	busy, last  bool      // it is being done; it was begun after the workers' end
}

func (k *moduleKeeper) stepKeep(now int64) {
	if k.recorded == nil || k.report.Unforkable != "" || k.phase != running || len(k.workers) == 0 || k.busy || k.last {
		return
	}
	if k.next == 0 {
		k.pause = int64(firstKept)
		k.next = now + k.pause
	}
	if k.report.Progress != nil && !k.stepped { // the leader has the next generation prepared from here on
		k.stepped, k.next = true, now
	}
	if now < k.next && !k.over() {
		k.alarm.at(k.next)
		return
	}
	k.busy, k.last = true, k.over()
	port, kept, last, r := k.order.World.Master.Port, k.kept, k.last, k.recorded
	go func() { // on a disk that may hang
		var added bool
		var err error
		errRead := r.read()
		if r.size > kept || !last { // at the end the next generation's start waits for the processor
			added, err = keepModules(r.names, k.order.ModulesFile, port)
		}
		k.post(func() {
			k.busy = false
			if err == nil {
				k.kept = r.size
			}
			if errRead != nil {
				k.log.Warn().Err(errRead).Msg("keep the names of imported modules")
			}
			k.pause = int64(nextKept(time.Duration(k.pause), added))
			k.next = Boottime() + k.pause
			if err != nil {
				k.heard.Warn().Err(err).Msg("keep the names of imported modules")
			}
		})
	}()
}
