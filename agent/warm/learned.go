package warm

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/internal/durable"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/sdk"
)

const (
	// maxLearned bounds what is kept of a job, and maxWhat a line of it.
	maxLearned = 200
	maxWhat    = 1000
)

// Learned is what is known of a job's starts on this node, from one generation to the next. All of it comes from
// processes of the job's owner, and decides only how far the next ones run ahead.
type Learned struct {
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

// MostLeft bounds for how many warm starts a lesson holds.
const MostLeft = 1 << 16

// Active are the lessons that hold.
func (l Learned) Active() (all []string) {
	for _, each := range l.Before {
		if each.Left > 0 {
			all = append(all, each.What)
		}
	}
	return all
}

// ReadLearned reads what is known; of a file that is not there, cannot be read or is of another version nothing is.
func ReadLearned(path string) Learned {
	none := Learned{Version: run.ProtocolVersion}
	var l Learned
	if path == "" {
		return none
	}
	if info, err := os.Stat(path); err != nil || info.Size() > record.MaxModules || durable.ReadJSON(path, &l) != nil || l.Version != run.ProtocolVersion {
		return none
	}
	l.Before = l.Before[:min(len(l.Before), maxLearned)]
	return l
}

// learning is held while the file of a job is read and written again.
var learning sync.Mutex

// Learn adds to what is known of a job. It is of use, and no more: an error is none of the run's.
func Learn(path, what string) {
	learning.Lock()
	defer learning.Unlock()
	l := ReadLearned(path)
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
	each.Left = min(1<<min(2*(each.Times-1), 16), MostLeft)
	_ = durable.WriteJSON(path, l)
}

// LearnForGood notes that nothing may be imported early for a job: its worker has ended because of that after its release, which
// is a failed start. A lesson that is forgotten would cost another one.
func LearnForGood(path string) {
	learning.Lock()
	defer learning.Unlock()
	l := ReadLearned(path)
	l.Before = slices.DeleteFunc(l.Before, func(each lesson) bool { return each.What == sdk.EarlyLesson })
	if path == "" || len(l.Before) >= maxLearned {
		return
	}
	l.Before = append(l.Before, lesson{What: sdk.EarlyLesson, Times: 1, Left: MostLeft})
	_ = durable.WriteJSON(path, l)
}

// Started counts a warm start: each lesson of the job holds for one less.
func Started(path string) {
	learning.Lock()
	defer learning.Unlock()
	l := ReadLearned(path)
	if path == "" || len(l.Active()) == 0 {
		return
	}
	for i := range l.Before {
		l.Before[i].Left = max(0, l.Before[i].Left-1)
	}
	_ = durable.WriteJSON(path, l)
}

// NoteMeeting looks whether workers meet at a port of this machine, and notes it for the job. It reports whether that is
// known now.
func NoteMeeting(path string, port int) (known bool, err error) {
	learning.Lock()
	defer learning.Unlock()
	l := ReadLearned(path)
	if l.Meets {
		return true, nil
	}
	if l.Meets = meetAt(port); !l.Meets {
		return false, nil
	}
	if err = durable.WriteJSON(path, l); err != nil {
		return false, fmt.Errorf("note that the workers meet: %w", err)
	}
	return true, nil
}
