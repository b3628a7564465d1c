package shim

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/sdk"
)

const (
	// maxLearned bounds what is kept of a job, and maxWhat a line of it.
	maxLearned = 200
	maxWhat    = 1000
)

// learned is what is known of a job's starts on this node, from one generation to the next. All of it comes from
// processes of the job's owner, and decides only how far the next ones run ahead.
type learned struct {
	Version int `json:"version"`
	// Before are what to park before.
	Before []lesson `json:"before,omitempty"`
	// Meets says that the workers were seen to meet at MASTER_PORT.
	Meets bool `json:"meets,omitempty"`
}

// lesson says what the next processes of the job are parked before, or that they import nothing early.
//
// It holds for one warm start, since most files change only once, when a user edits them. A lesson that is learned
// again holds for four times as many starts each time.
type lesson struct {
	// What names the file or module to park before, as "path /x" or "import x": it changed after a process had read it,
	// or importing it ended the process. It is sdk.EarlyLesson if nothing may be imported early.
	What  string `json:"what"`
	Times int    `json:"times"` // how often it was learned
	Left  int    `json:"left"`  // for how many warm starts it still holds
}

// mostLeft bounds for how many warm starts a lesson holds.
const mostLeft = 1 << 16

// active are the lessons that hold.
func (l learned) active() (all []string) {
	for _, each := range l.Before {
		if each.Left > 0 {
			all = append(all, each.What)
		}
	}
	return all
}

// readLearned reads what is known; of a file that is not there, cannot be read or is of another version nothing is.
func readLearned(path string) learned {
	none := learned{Version: run.ProtocolVersion}
	var l learned
	if path == "" {
		return none
	}
	if info, err := os.Stat(path); err != nil || info.Size() > record.MaxModules || readJSON(path, &l) != nil || l.Version != run.ProtocolVersion {
		return none
	}
	l.Before = l.Before[:min(len(l.Before), maxLearned)]
	return l
}

// learning is held while the file of a job is read and written again.
var learning sync.Mutex

// learn adds to what is known of a job. It is of use, and no more: an error is none of the run's.
func learn(path, what string) {
	learning.Lock()
	defer learning.Unlock()
	l := readLearned(path)
	i := slices.IndexFunc(l.Before, func(each lesson) bool { return each.What == what })
	if i < 0 {
		i = len(l.Before)
		l.Before = append(l.Before, lesson{What: what})
	}
	if path == "" || len(what) > maxWhat || i >= maxLearned {
		return
	}
	each := &l.Before[i]
	each.Times++
	each.Left = min(1<<min(2*(each.Times-1), 16), mostLeft)
	_ = writeDurable(path, l)
}

// learnForGood notes that nothing may be imported early for a job: its worker has ended because of that after its release, which
// is a failed start. A lesson that is forgotten would cost another one.
func learnForGood(path string) {
	learning.Lock()
	defer learning.Unlock()
	l := readLearned(path)
	l.Before = slices.DeleteFunc(l.Before, func(each lesson) bool { return each.What == sdk.EarlyLesson })
	if path == "" || len(l.Before) >= maxLearned {
		return
	}
	l.Before = append(l.Before, lesson{What: sdk.EarlyLesson, Times: 1, Left: mostLeft})
	_ = writeDurable(path, l)
}

// startedWarm counts a warm start: each lesson of the job holds for one less.
func startedWarm(path string) {
	learning.Lock()
	defer learning.Unlock()
	l := readLearned(path)
	if path == "" || len(l.active()) == 0 {
		return
	}
	for i := range l.Before {
		l.Before[i].Left = max(0, l.Before[i].Left-1)
	}
	_ = writeDurable(path, l)
}

func (t *attempt) learn(what string) {
	t.log.Info().Str("what", printable(what)).Msg("the next process that runs ahead is parked before")
	t.mutex.Lock()
	t.learned.Before = append(t.learned.Before, lesson{What: what, Left: 1}) // also where nothing is kept
	t.mutex.Unlock()
	learn(t.order.LearnedFile, what)
}

const (
	firstLook = 2 * time.Second
	lastLook  = 10 * time.Minute
)

// meetWatch finds out whether the workers meet at MASTER_PORT. The loop owns it.
type meetWatch struct {
	*shared

	pause, next int64
	stepped     bool // a step was reported, before which workers have met
	busy, known bool // it is being looked; it is known
}

func (k *meetWatch) step(now int64) {
	port := k.order.World.Master.Port
	if k.order.LearnedFile == "" || k.state.Report.Unforkable != "" || len(k.workers) == 0 || k.busy || k.known || port == 0 || !k.state.Running() || k.state.Over(&k.facts) {
		return
	}
	if k.next == 0 {
		k.pause = int64(firstLook)
		k.next = now + k.pause
	}
	if k.state.Report.Progress != nil && !k.stepped { // the leader has the next generation prepared from here on
		k.stepped, k.next = true, now
	}
	if now < k.next {
		k.alarm.at(k.next)
		return
	}
	k.busy = true
	path := k.order.LearnedFile
	go func() { // on a disk that may hang
		learning.Lock()
		defer learning.Unlock()
		l := readLearned(path)
		met, had := meetAt(port), l.Meets
		var err error
		if met && !had {
			l.Meets = true
			err = writeDurable(path, l)
		}
		k.post(func() {
			k.busy, k.known = false, met && err == nil || had
			k.pause = int64(min(2*time.Duration(k.pause), lastLook))
			k.next = Boottime() + k.pause
			if err != nil {
				k.heard.Warn().Err(err).Msg("note that the workers meet")
			}
		})
	}()
}

// outputPipe is where a process prints that has no rank yet: the read end, which does not block, and the other.
func outputPipe() (out *os.File, in int, err error) {
	var p [2]int
	if err = unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	_, _ = unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, maxPrinted) //nolint:gosec // a descriptor; else it has 64 KiB
	if err = unix.SetNonblock(p[0], true); err != nil {
		return nil, -1, errors.Join(err, unix.Close(p[0]), unix.Close(p[1]))
	}
	return os.NewFile(uintptr(p[0]), "output pipe"), p[1], nil
}

// waiting is how many bytes a pipe holds.
func waiting(pipe *os.File) (n int) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if holds, errAsk := unix.IoctlGetInt(int(fd), unix.TIOCINQ); errAsk == nil {
			n = holds
		}
	})
	return n
}

// capacity is how many bytes a pipe has room for.
func capacity(pipe *os.File) int {
	n := 64 << 10 // the kernel's own choice
	raw, err := pipe.SyscallConn()
	if err != nil {
		return n
	}
	_ = raw.Control(func(fd uintptr) {
		if size, errAsk := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); errAsk == nil {
			n = size
		}
	})
	return n
}

// writtenBy is how many bytes a process has written in its life; -1 if the kernel does not tell.
func writtenBy(pid int) int64 {
	b, err := os.ReadFile(proc.file(pid, "io"))
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

// lastLine is the last line of a text, for people.
func lastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return printable(string(lines[len(lines)-1]))
}
