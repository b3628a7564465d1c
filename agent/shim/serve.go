package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/owner"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/internal/logging"
	"github.com/bellows-ml/bellows/internal/userdb"
)

// readyVariable names the descriptor on which a shim tells Start how its own start went.
const readyVariable = "BELLOWS_SHIM_READY"

const (
	readyWord = "ready\n"
	// errnoWord begins what is told of a start that something has prevented which
	// passes; the number of the error follows.
	errnoWord = "errno "
)

// What others cause is logged at most so often.
const (
	heardBurst  = 20
	heardPeriod = time.Minute
)

// Serve hosts the workers of the run whose order lies in dir. It is the whole of
// a shim's process, and is called at most once in one: it becomes the subreaper,
// sets the umask, and leaves threads and descriptors to the process's end.
//
// Called in a process that nothing holds, it becomes the holder: it starts the
// program once more with the same arguments, which does the above, and returns
// when that and all it has left is gone, with an Ended where that failed.
//
// It returns nil once it was told to retire, or was told to end by SIGTERM or
// ctx, and in both cases no process is left. Any other error means that it never
// executed a worker.
func Serve(ctx context.Context, dir string) error {
	keepInherited() // also for a shim that was not started by Start
	dir, err := filepath.Abs(dir)
	if err == nil && os.Getenv(heldVariable) == "" {
		if err = hold(dir); err == nil || errors.As(err, new(Ended)) {
			return err // the shim has told the rest
		}
	} else if err == nil {
		err = serve(ctx, dir)
	}
	if err != nil {
		word := err.Error()
		var errno unix.Errno
		if precheck.FailureOf(err).MayPass() && errors.As(err, &errno) {
			word = fmt.Sprintf("%s%d %s", errnoWord, errno, word)
		}
		tellReady(word)
	}
	return err
}

func serve(ctx context.Context, dir string) error {
	// One processor may be kept by a process that is being executed; see execute. The
	// number is set, or Go would stop everything to adapt it later.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	// The loop may log before it kills, and a disk may hang.
	lines := logging.NewWriter(os.Stderr)
	defer lines.Close()
	m, err := newMachine(ctx, dir, zerolog.New(lines))
	if err != nil {
		return err
	}
	defer m.alarm.close()
	// First of all: the sockets are only ours if the run is. And from here on,
	// what is started can be found again.
	if err = rundir.Claim(dir, m.record()); err != nil {
		return errors.Join(err, m.containment.Remove())
	}
	first, err := json.Marshal(m.state.Report)
	if err == nil {
		err = m.journal.begin(first)
	}
	if err != nil {
		return errors.Join(err, m.containment.Remove())
	}
	control, err := listen(filepath.Join(dir, rundir.ControlSocket), os.Geteuid())
	if err != nil {
		return errors.Join(err, m.containment.Remove())
	}
	defer control.Close()
	workers, err := listen(filepath.Join(dir, run.WorkerSocket), int(m.order.Owner.UID))
	if err != nil {
		return errors.Join(err, m.containment.Remove())
	}
	defer workers.Close()
	go m.journal.run()
	go m.agents.serve(control)
	go m.sdk.serve(workers)
	tellReady(readyWord)
	m.log.Info().Str("containment", m.state.Report.Containment).AnErr("not_stronger_because", m.containment.NotStronger).AnErr("any_number_of_processes_because", m.containment.Unbound).AnErr("ahead_unbound_because", m.containment.AheadUnbound).Int("pid", m.state.Report.Shim.PID).Msg("shim is ready")
	m.run(ctx)
	m.sdk.shut()
	m.agents.shut()
	m.log.Info().Msg("shim retires")
	return nil
}

func newMachine(ctx context.Context, dir string, log zerolog.Logger) (*machine, error) {
	found, err := rundir.Read(dir)
	if err != nil {
		return nil, err
	}
	o := found.Order
	if err = o.Check(); err != nil {
		return nil, fmt.Errorf("order of run %s: %w", dir, err)
	}
	if err = rundir.CheckSocketPaths(dir); err != nil {
		return nil, err
	}
	unlockMemory()
	unix.Umask(0o022) // the workers inherit it, and the agent's own may be a service's
	self, err := proc.Identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	var movable []int // who is in the scope, which is this run's alone
	if o.Scope {
		movable = []int{os.Getpid()}
		if holder := holderPID(); holder != 0 {
			movable = append(movable, holder)
		}
	}
	if err = contain.Subreaper(); err != nil {
		return nil, err
	}
	containment, err := contain.New(contain.Config{Name: rundir.GroupName(o, dir), Kind: o.Containment, Movable: movable})
	if err != nil {
		return nil, err
	}
	alarm, err := newAlarm()
	if err != nil {
		return nil, errors.Join(err, containment.Remove())
	}
	sh := &shared{
		dir: dir, order: o, containment: containment, alarm: alarm,
		log: log.With().Timestamp().Str("job", string(o.World.Job)).
			Uint64("gen", uint64(o.World.Generation)).Str("node", string(o.Node)).Logger(),
		events: make(chan func()), done: make(chan struct{}),
		state: run.New(o, self, containment.Kind),
	}
	sh.heard = sh.log.Sample(&zerolog.BurstSampler{Burst: heardBurst, Period: heardPeriod})
	sh.abort, sh.cancel = context.WithCancel(ctx)
	m := assemble(sh)
	m.admit(ctx, userdb.Find)
	if o.Prepare == nil { // the run record names the groups from the beginning
		m.bind(o)
		m.facts.Binding.Done = true
	}
	if o.Prepare != nil {
		containment.BoundAhead(contain.Ahead{Devices: o.DeviceFiles, Memory: o.MemoryAhead(), Processes: o.Processes, CPUs: o.Limits.CPUs})
	}
	return m, nil
}

// admit finds out whom the workers run as. A user database that does not answer says
// nothing against the node: that passes.
func (m *machine) admit(ctx context.Context, find owner.Finder) {
	var err error
	m.id, err = precheck.Owner(ctx, m.order.Owner, find)
	m.facts.Refused = precheck.Failed(err)
}

// unlockMemory lets workers pin as much memory as they are allowed to: network
// cards that read it directly need it pinned, and the usual limit is for people.
func unlockMemory() {
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		return
	}
	// Not root's: then as far as the agent's own limit goes, which its unit sets.
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit)
	}
}

// record is where to find what this shim starts.
func (s *shared) record() rundir.Record {
	rec := rundir.Record{Version: run.ProtocolVersion, Shim: s.state.Report.Shim, Cgroup: s.containment.Path, Containment: s.containment.Kind, Owner: &s.order.Owner.UID}
	rec.Limits = s.containment.Groups()
	return rec
}

// tellReady sends a word, once, to the process that started the shim, if that listens.
func tellReady(word string) {
	fd, err := strconv.Atoi(os.Getenv(readyVariable))
	if err != nil {
		return
	}
	_ = os.Unsetenv(readyVariable)
	f := os.NewFile(uintptr(fd), "ready pipe")
	_, _ = f.WriteString(word)
	_ = f.Close()
}
