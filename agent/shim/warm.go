package shim

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// forkBound is how long a launcher and its workers may take until all are born.
const forkBound = 15 * time.Second

// executeWarm has the launcher fork the workers. They all wait until each is where it
// belongs, so that up to that moment they can be done without: then they are killed, and
// workers are executed as without a launcher.
func (s *starter) executeWarm(r *readyLauncher) {
	take := s.forkWorkers
	if s.order.waits() {
		take = s.takeParked
	}
	babies, err := take(r)
	if err == nil {
		wait := func() {}
		if r.list.awaitsMaster(s.order.World) {
			wait = func() { awaitMaster(s.abort, s.order.World.Master, masterBound) }
		}
		err = release(babies, s.member.FirstRank, wait)
	}
	closeAll(babies)
	if err != nil {
		for _, b := range babies {
			b.log.stop()
		}
		s.post(func() {
			s.launcher.giveUp(err.Error())
			s.phase = ready
		})
		return
	}
	at := time.Now()
	for i, b := range babies {
		b.at = at
		s.post(func() { s.executed(s.workers[i], b.born, nil) })
	}
	s.post(func() {
		s.report.Warm, s.dirty = s.order.Prepare != nil, true
		s.launcher.forked()
		s.executedAll()
	})
	<-s.done
}

// baby is a worker that was forked, and waits.
type baby struct {
	born

	conn *net.UnixConn
	word []byte // what lets it go; nil: a byte
}

func closeAll(babies []*baby) {
	for _, b := range babies {
		_ = b.conn.Close()
	}
}

// release lets the workers run their script, the others once rank 0 was let and wait has returned. If one
// has ended before, none does anything of it that counts: its peers are told of its end as of any worker's.
func release(babies []*baby, firstRank int, wait func()) error {
	for i, b := range babies {
		if rank := firstRank + i; rank == 1 || rank != 0 && i == 0 {
			wait()
		}
		word := b.word
		if word == nil {
			word = []byte("g")
		}
		if _, err := b.conn.Write(word); err != nil && i == 0 {
			return fmt.Errorf("a forked worker has ended: %w", err)
		}
	}
	return nil
}

// forkOrder is what a launcher is told of one worker.
type forkOrder struct {
	Worker int               `json:"worker"`
	Env    map[string]string `json:"env"`
}

// forkWorkers has the workers forked, and puts each where it belongs. What it returns
// with an error was forked all the same.
func (s *starter) forkWorkers(r *readyLauncher) (babies []*baby, err error) {
	order := s.order
	order.Env = s.env
	if !maps.Equal(lasting(order, s.dir), r.env) {
		return nil, errors.New("its environment has changed since its launcher was started")
	}
	if err = r.conn.SetDeadline(time.Now().Add(forkBound)); err != nil {
		return nil, err
	}
	for local := range s.workers {
		b, errAsk := s.askFor(r, order, local)
		if b != nil {
			babies = append(babies, b)
		}
		if errAsk != nil {
			return babies, errAsk
		}
	}
	if err = r.send(map[string]bool{"fork": true}, nil); err != nil {
		return babies, fmt.Errorf("its launcher: %w", err)
	}
	word, err := r.hear()
	switch {
	case errors.Is(err, errSilent):
		return babies, errors.New("its launcher has ended")
	case err != nil:
		return babies, err
	case word.Cold != "":
		return babies, errors.New(word.Cold)
	}
	for local, b := range babies {
		if err = s.adopt(b, local); err != nil {
			return babies, fmt.Errorf("adopt forked worker %d: %w", local, err)
		}
	}
	return babies, s.abort.Err()
}

// askFor tells the launcher of one worker.
func (s *starter) askFor(r *readyLauncher, order Order, local int) (*baby, error) {
	log, out, err := openLog(s.order, s.member.FirstRank+local, s.newLineReader())
	if err != nil {
		return nil, err
	}
	defer unix.Close(out) //nolint:errcheck // the launcher has its own
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		log.stop()
		return nil, err
	}
	defer unix.Close(pair[1]) //nolint:errcheck // as above
	err = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	conn, errConn := connOf(pair[0])
	if err = errors.Join(err, errConn); err != nil {
		log.stop()
		return nil, err
	}
	b := &baby{conn: conn, born: born{log: log}}
	if _, err = unix.Write(out, r.printed); err == nil { // what fits into a pipe, and its reader takes it
		err = r.send(forkOrder{local, variables(order, s.dir, local)}, []int{out, pair[1]})
	}
	return b, errors.Join(err, conn.SetDeadline(time.Now().Add(forkBound)))
}

// adopt waits until a worker is born, which the kernel says who that is, and puts it where
// it belongs.
func (s *starter) adopt(b *baby, local int) error {
	word, oob := make([]byte, 16), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := b.conn.ReadMsgUnix(word, oob)
	if err != nil {
		return err
	}
	if string(word[:n]) != "born\n" {
		return errors.New("it has ended before it was ready")
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) == 0 {
		return fmt.Errorf("the kernel does not tell who it is: %w", errors.Join(err, errSilent))
	}
	cred, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return err
	}
	p, err := readStat(int(cred.Pid))
	switch {
	case err != nil:
		return err
	case p.ppid != os.Getpid():
		return fmt.Errorf("%s is no child of the shim's", p)
	case cred.Uid != s.order.Owner.UID:
		return fmt.Errorf("%s runs as uid %d", p, cred.Uid)
	}
	b.pid, b.start = p.pid, p.start
	return s.containment.place(p.pid, local)
}

// forked hears that the launcher has done what it was for.
func (l *launcher) forked() {
	_ = l.ready.conn.Close()
	l.ready, l.over = nil, true
	if !l.order.waits() { // else it is the worker
		_ = unix.Kill(l.process.PID, unix.SIGKILL) // not reaped while workers are being started
	}
	l.process = Process{}
}
