package precheck

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bellows-ml/bellows/agent/child"
	"github.com/bellows-ml/bellows/agent/owner"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Question is the question what a node has of a run's needs, put to a process that is
// the run's owner: the shim touches nothing itself at a path that a user has named.
type Question struct {
	Dir       string        `json:"dir"` // the run directory
	Order     run.Order     `json:"order"`
	PathsOnly bool          `json:"paths_only,omitempty"` // there is no run: see Needs
	Waiting   func(string)  `json:"-"`                    // told what is looked at
	Started   func(pid int) `json:"-"`
	runner    *child.Runner // nil: one of its own
}

// said is a line of what the process says: what it looks at, or how the look ended.
type said struct {
	Waiting  string             `json:"waiting,omitempty"`
	Findings *Findings          `json:"findings,omitempty"`
	Refused  record.FailureKind `json:"refused,omitempty"`
	Reason   string             `json:"reason,omitempty"` // of Refused
	Missing  bool               `json:"missing,omitempty"`
}

// lookCommand is the program's own command that does the looking.
var lookCommand = []string{"internal", "look"}

// maxSaid bounds all that the process says: JSON takes six bytes for some of one of the file's.
const maxSaid = 6*cluster.MaxEnvFileBytes + 256<<10

// Ask looks as the owner: here, if that is who this process is.
func (l Question) Ask(ctx context.Context, id owner.Identity) (Findings, error) {
	if id.Cred == nil {
		return l.here(ctx)
	}
	in, err := json.Marshal(l)
	if err != nil {
		return Findings{}, fmt.Errorf("encode order: %w", err)
	}
	h := &hearing{waiting: l.Waiting}
	runner := cmp.Or(l.runner, &child.Runner{})
	err = runner.Run(ctx, child.Task{
		Program: child.Self, Args: lookCommand, As: id.Cred, In: in, Out: h, Most: maxSaid, Started: l.Started,
	})
	switch {
	case ctx.Err() != nil:
		return Findings{}, ctx.Err()
	case h.last.Reason != "":
		err = errors.New(record.Reason(cluster.Printable(h.last.Reason)))
		if h.last.Missing {
			err = missing{err}
		}
		return Findings{}, &refusal{h.kind(), err}
	case err == nil && h.last.Findings == nil:
		err = errors.New("the process ended without an answer")
	}
	if err != nil {
		return Findings{}, fmt.Errorf("look at what the job needs, as uid %d: %w", id.Cred.Uid, err)
	}
	return *h.last.Findings, checkFindings(*h.last.Findings)
}

// checkFindings is as careful with what a user's process says as with an order.
func checkFindings(f Findings) error {
	if !strings.HasPrefix(f.Program, "/") || strings.ContainsRune(f.Program, 0) {
		return fmt.Errorf("command: its program %q is not an absolute path", f.Program)
	}
	return errors.Join(run.CheckEnv(f.Secrets)...)
}

// hearing takes in what the process says, line by line.
type hearing struct {
	waiting func(string)
	rest    []byte
	last    said
}

// Write implements io.Writer.
func (h *hearing) Write(p []byte) (int, error) {
	h.rest = append(h.rest, p...)
	for {
		line, after, ended := bytes.Cut(h.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		h.last = said{}
		if err := json.Unmarshal(line, &h.last); err != nil {
			return 0, fmt.Errorf("decode what it says: %w", err)
		}
		if h.last.Waiting != "" {
			h.waiting(record.Reason(cluster.Printable(h.last.Waiting)))
		}
		h.rest = after
	}
}

// kind is one of those that there are for a look.
func (h *hearing) kind() record.FailureKind {
	if h.last.Refused.MayPass() {
		return h.last.Refused
	}
	return record.NodeRefused
}

// Answer is that process's side: it reads the question from in and answers on out.
// Its error says that the two could not talk.
func Answer(ctx context.Context, in io.Reader, out io.Writer) error {
	var l Question
	if err := json.NewDecoder(in).Decode(&l); err != nil {
		return fmt.Errorf("read what to look at: %w", err)
	}
	enc := json.NewEncoder(out)
	var errSay error
	say := func(s said) { errSay = errors.Join(errSay, enc.Encode(s)) }
	if uint64(os.Geteuid()) != uint64(l.Order.Owner.UID) { //nolint:gosec // a uid is not negative
		return fmt.Errorf("look as uid %d for uid %d: it is another user's", os.Geteuid(), l.Order.Owner.UID)
	}
	l.Waiting = func(what string) { say(said{Waiting: what}) }
	found, err := l.here(ctx)
	if err != nil {
		_, isMissing := errors.AsType[missing](err)
		say(said{Refused: FailureOf(err), Reason: err.Error(), Missing: isMissing})
	} else {
		say(said{Findings: &found})
	}
	if errSay != nil {
		return fmt.Errorf("say what was found: %w", errSay)
	}
	return nil
}
