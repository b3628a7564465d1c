package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// saved is a checkpoint of which a rank has said that its part is there.
type saved struct {
	Step    int    `json:"step"`
	Samples int    `json:"samples"` // consumed since the start; -1: the script did not say
	Dir     string `json:"dir"`
}

// host speaks with the workers of one world as a shim does; all of them stop after the same step.
type host struct {
	listener  net.Listener
	stopAfter int
	wait      sync.WaitGroup

	mu     sync.Mutex
	greets map[int]bool
	last   map[int]saved // by rank
	full   error
}

// listen begins to serve a world that stops after a step.
func listen(path string, stopAfter int) (*host, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	h := &host{listener: l, stopAfter: stopAfter, greets: map[int]bool{}, last: map[int]saved{}}
	h.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			h.wait.Go(func() { h.serve(c) })
		}
	})
	return h, nil
}

// close ends the service; the workers have ended.
func (h *host) close() {
	_ = h.listener.Close()
	h.wait.Wait()
}

// message is what a worker says, as far as it matters here.
type message struct {
	Hello *struct {
		Rank int `json:"rank"`
	} `json:"hello"`
	Saved  *saved `json:"saved"`
	NoRoom *struct {
		Reason string `json:"reason"`
	} `json:"no_room"`
}

// serve answers one worker until it ends.
func (h *host) serve(c net.Conn) {
	defer c.Close()
	rank := -1
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			return
		}
		h.mu.Lock()
		answer := ""
		switch {
		case m.Hello != nil:
			rank = m.Hello.Rank
			h.greets[rank] = true
			// The step comes before the welcome, and no step begins before that.
			answer = fmt.Sprintf("{\"stop_after\":%d}\n{\"welcome\":{}}\n", h.stopAfter)
		case m.Saved != nil:
			h.last[rank] = *m.Saved
			answer = fmt.Sprintf("{\"saved_ok\":%d}\n", m.Saved.Step)
		case m.NoRoom != nil:
			h.full = fmt.Errorf("rank %d cannot save: %s", rank, m.NoRoom.Reason)
		}
		h.mu.Unlock()
		if _, err := c.Write([]byte(answer)); err != nil {
			return
		}
	}
}

// Errors of scripts that cannot be verified, each with its remedy.
var (
	errSilent  = errors.New("no rank imports torch, JAX or bellows: what a script trains on cannot be observed without 'import bellows' (docs/recipes.md)")
	errUnsaved = errors.New("it ended without saving: call bellows.save(step, write) after the loop, on every rank; or, without the module, save into $BELLOWS_CHECKPOINT_DIR after SIGTERM")
)

// result is the checkpoint that all ranks of a world have saved at its end.
func (h *host) result(w *world) (*saved, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.full != nil:
		return nil, h.full
	case len(h.greets) == 0:
		return nil, errSilent
	case len(h.last) == 0:
		return w.plain()
	}
	for rank := range w.size {
		s, ok := h.last[rank]
		switch {
		case !ok:
			return nil, fmt.Errorf("rank %d: %w", rank, errUnsaved)
		case s.Step < w.end:
			return nil, fmt.Errorf("rank %d ended at step %d, before step %d: let the script train for more steps, or each world for fewer with --steps-each", rank, s.Step, w.end)
		case s.Step > w.end:
			return nil, fmt.Errorf("rank %d was to stop after step %d and saved step %d: ask bellows.should_stop(step) before every step", rank, w.end-1, s.Step)
		}
		if _, err := os.Stat(filepath.Join(s.Dir, fmt.Sprintf("rank-%05d", rank))); err != nil {
			return nil, err
		}
	}
	s := h.last[0]
	return &s, nil
}

// plain is the checkpoint that a script without the module has saved, as docs/environment.md tells it to.
func (w *world) plain() (*saved, error) {
	entries, err := os.ReadDir(w.checkpoints())
	if err != nil {
		return nil, err
	}
	newest := saved{Step: -1, Samples: -1}
	steps, files := false, false
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "step-")
		step, err := strconv.Atoi(digits)
		if !ok || err != nil || !e.IsDir() {
			files = files || !strings.HasPrefix(e.Name(), ".")
			continue
		}
		steps = true
		dir := filepath.Join(w.checkpoints(), e.Name())
		complete, err := os.ReadFile(filepath.Join(dir, "COMPLETE"))
		if err != nil || step <= newest.Step {
			continue
		}
		newest = saved{Step: step, Samples: -1, Dir: dir}
		if n, ok := strings.CutPrefix(strings.TrimSpace(string(complete)), "samples="); ok {
			if newest.Samples, err = strconv.Atoi(n); err != nil {
				return nil, fmt.Errorf("%s/COMPLETE: %w: write samples=<N>, or nothing", dir, err)
			}
		}
	}
	switch {
	case !steps && files: // all of them together are the checkpoint
		return &saved{Step: w.end, Samples: -1, Dir: w.checkpoints()}, nil
	case newest.Step < 0:
		return nil, errUnsaved
	case newest.Step != w.end:
		return nil, fmt.Errorf("it was to stop after step %d and saved step %d last: after SIGTERM finish the step, save, and count steps from 0 through all resumes", w.end-1, newest.Step)
	}
	return &newest, nil
}
