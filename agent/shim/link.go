package shim

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// sdkVersion is the only version of the SDK's protocol so far.
	sdkVersion = 1
	// maxLine bounds a message of the SDK.
	maxLine = 1 << 20
	// helloBound is how long a new connection may stay anonymous.
	helloBound = 10 * time.Second
	// linkQueue is how many answers may wait for a worker that does not read.
	linkQueue = 64
	// spareLinks may be open besides one for each rank: a rank's new one before
	// its old one is noticed to be gone, and those that are about to be refused.
	spareLinks = 16
)

// fromWorker is one line of the SDK; exactly one field is set.
type fromWorker struct {
	Hello *struct {
		Version int `json:"version"`
		Rank    int `json:"rank"`
		PID     int `json:"pid"`
	} `json:"hello"`
	Held *struct {
		Begun int64 `json:"begun"`
	} `json:"held"`
	Saved *struct {
		Step    int64  `json:"step"`
		Samples int64  `json:"samples"`
		Dir     string `json:"dir"`
	} `json:"saved"`
	NoRoom *struct { // a save failed because a disk is full, and so will the rank
		Step      int64  `json:"step"`
		Reason    string `json:"reason"`
		Transient bool   `json:"transient"` // because a file system fails otherwise, as it may for a moment
	} `json:"no_room"`
	Progress *run.Finished `json:"progress"`
}

// toWorker is one line to the SDK; exactly one field is set.
type toWorker struct {
	Welcome   *struct{} `json:"welcome,omitempty"` // the hello was heard; no step begins before
	Hold      *struct{} `json:"hold,omitempty"`
	StopAfter *int64    `json:"stop_after,omitempty"`
	SavedOK   *int64    `json:"saved_ok,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// link is one connection to the worker socket.
type link struct {
	conn    *net.UnixConn
	cred    *unix.Ucred
	lineage []int   // the process that connected and its ancestors, read at once: it may end before its hello is heard
	worker  *worker // once its hello was believed
	out     chan outgoing
	gone    chan struct{}

	refused bool // what still comes is not listened to
	// early is what came before the news that the worker was born; a new process
	// can be faster than the thread that started it.
	early []fromWorker
}

type outgoing struct {
	message   toWorker
	delivered func() // may be nil
	last      bool   // close after it
}

// workerServer is the worker socket. The loop owns it, but for the accepting, reading and writing.
type workerServer struct {
	*shared

	links   map[*link]bool
	numbers int                       // of connections so far: see run.Worker.Link
	confirm func(k *link, step int64) // has a save be answered once it is on disk
}

func (s *workerServer) serve(l *net.UnixListener) {
	accept(l, func(c *net.UnixConn, cred *unix.Ucred) {
		k := &link{conn: c, cred: cred, lineage: proc.Lineage(int(cred.Pid)), out: make(chan outgoing, linkQueue), gone: make(chan struct{})}
		s.post(func() { s.open(k) })
	})
}

func (s *workerServer) open(k *link) {
	if len(s.links) >= len(s.workers)+spareLinks {
		_ = k.conn.Close()
		return
	}
	s.links[k] = true
	go s.write(k)
	go s.read(k)
}

func (s *workerServer) read(k *link) {
	_ = k.conn.SetReadDeadline(time.Now().Add(helloBound))
	lines(k.conn, maxLine, func(line []byte) bool {
		var msg fromWorker
		if err := json.Unmarshal(line, &msg); err != nil {
			s.post(func() { s.refuse(k, "not a line of JSON: "+err.Error()) })
			return true // the writer hangs up, once it has said why
		}
		if msg.Hello != nil {
			_ = k.conn.SetReadDeadline(time.Time{})
		}
		s.post(func() { s.hear(k, msg) })
		return true
	})
	s.post(func() { s.close(k) })
}

func (s *workerServer) write(k *link) {
	for {
		select {
		case o := <-k.out:
			b, err := json.Marshal(o.message)
			if err == nil {
				err = k.conn.SetWriteDeadline(time.Now().Add(sendBound))
			}
			if err == nil {
				_, err = k.conn.Write(append(b, '\n'))
			}
			if err != nil || o.last {
				_ = k.conn.Close()
				return
			}
			if o.delivered != nil {
				s.post(o.delivered)
			}
		case <-k.gone:
			return
		}
	}
}

// send queues a message. A worker that leaves a whole queue unread is cut off,
// and from then on treated like one that never connected.
func (k *link) send(msg toWorker, delivered func()) {
	k.queue(outgoing{message: msg, delivered: delivered})
}

func (k *link) queue(o outgoing) {
	select {
	case k.out <- o:
	default:
		_ = k.conn.Close()
	}
}

// say sends a message to the worker's SDK, if that is connected.
func (w *worker) say(msg toWorker, delivered func()) {
	if w.link != nil {
		w.link.send(msg, delivered)
	}
}

// refuse tells the other end what is wrong, and hangs up.
func (s *workerServer) refuse(k *link, why string) {
	if k.refused {
		return
	}
	k.refused = true
	s.heard.Warn().Int32("pid", k.cred.Pid).Str("why", why).Msg("refused a worker's message")
	k.queue(outgoing{message: toWorker{Error: why}, last: true})
}

func (s *workerServer) close(k *link) {
	if !s.links[k] {
		return
	}
	delete(s.links, k)
	close(k.gone)
	_ = k.conn.Close()
	if k.worker != nil && k.worker.link == k {
		k.worker.link, k.worker.fact.Link = nil, 0
	}
}

// hear takes one message in.
func (s *workerServer) hear(k *link, msg fromWorker) {
	switch {
	case k.refused:
	case len(k.early) >= linkQueue:
		s.refuse(k, "too many messages before the worker was executed")
	case len(k.early) > 0:
		k.early = append(k.early, msg)
	case msg.Hello != nil:
		s.hello(k, msg)
	case k.worker == nil:
		s.refuse(k, "say hello first")
	case msg.Held != nil:
		if k.worker.link == k { // an answer over an older connection is no answer any more
			k.worker.fact.Begun = &msg.Held.Begun
		}
	case msg.Saved != nil:
		s.saved(k, run.Save{Step: msg.Saved.Step, Rank: k.worker.rank, Samples: msg.Saved.Samples, Dir: msg.Saved.Dir})
	case msg.NoRoom != nil:
		k.worker.fact.Unsaved = fmt.Sprintf("save step %d: %s", msg.NoRoom.Step, record.Cut(cluster.Printable(msg.NoRoom.Reason), record.MaxReason/2))
		k.worker.fact.UnsavedFor = record.NoSpace
		if msg.NoRoom.Transient {
			k.worker.fact.UnsavedFor = record.Transient
		}
	case msg.Progress != nil:
		s.state.BySDK()
		s.state.Progressed(*msg.Progress, time.Now())
	default:
		k.send(toWorker{Error: "unknown message: hello, held, saved, no_room and progress are understood"}, nil)
	}
}

// hello believes the kernel: the rank must be that of the process at the other
// end, or of one that it descends from.
func (s *workerServer) hello(k *link, msg fromWorker) {
	i := slices.IndexFunc(s.workers, func(w *worker) bool { return w.rank == msg.Hello.Rank })
	switch {
	case msg.Hello.Version != sdkVersion:
		s.refuse(k, fmt.Sprintf("version %d: this shim speaks version %d", msg.Hello.Version, sdkVersion))
		return
	case i < 0:
		s.refuse(k, fmt.Sprintf("rank %d is not on this node", msg.Hello.Rank))
		return
	case s.workers[i].fact.PID == 0 && s.state.Executing():
		k.early = append(k.early, msg)
		return
	}
	w := s.workers[i]
	if !slices.Contains(k.lineage, w.fact.PID) {
		s.refuse(k, fmt.Sprintf("process %d does not belong to rank %d", k.cred.Pid, w.rank))
		return
	}
	if !w.runs() { // it has ended meanwhile: there is no one to answer, and what it has said counts
		k.worker = w
		return
	}
	if old := w.link; old != nil && old != k {
		_ = old.conn.Close()
	}
	if s.numbers++; s.numbers == 1 {
		s.log.Info().Int("rank", w.rank).Msg("the SDK has connected")
	}
	// The run welcomes it, and holds it before where there is a halt: no step begins in between.
	w.link, k.worker = k, w
	w.fact.Link, w.fact.Begun = s.numbers, nil
}

// admitEarly hears again what came before its worker was known. What is still
// too early stays in its place.
func (s *workerServer) admitEarly() {
	for k := range s.links {
		early := k.early
		k.early = nil
		for _, msg := range early {
			s.hear(k, msg)
		}
	}
}

// shut hangs up everywhere.
func (s *workerServer) shut() {
	for k := range s.links {
		_ = k.conn.Close()
	}
}

// saved notes a rank's save; the answer goes out once it is on disk.
func (s *workerServer) saved(k *link, save run.Save) {
	if err := checkSave(s.order.Checkpoint, save); err != nil {
		k.send(toWorker{Error: err.Error()}, nil)
		return
	}
	k.worker.fact.Unsaved = ""
	s.state.Saved(save)
	s.confirm(k, save.Step)
}

// checkSave keeps a job from having the agent read, as root, what lies elsewhere.
func checkSave(checkpoint string, s run.Save) error {
	inside, err := filepath.Rel(checkpoint, s.Dir)
	switch {
	case s.Step < 0 || s.Samples < -1:
		return fmt.Errorf("save of step %d with %d samples: use 0 or more, or -1 samples if unknown", s.Step, s.Samples)
	case !filepath.IsAbs(s.Dir) || filepath.Clean(s.Dir) != s.Dir || err != nil || inside == "." || inside == ".." ||
		strings.HasPrefix(inside, "../"):
		return fmt.Errorf("save in %q: use a directory below $BELLOWS_CHECKPOINT_DIR, %s", cluster.Printable(s.Dir), checkpoint)
	}
	return nil
}
