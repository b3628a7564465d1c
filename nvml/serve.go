package nvml

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// ask is the line that asks the child for a survey.
const ask = "survey"

// surveyor is the library, loaded.
type surveyor interface {
	survey() (Survey, error)
}

// Serve is the child's part of NewProbe: it loads the library (path; "" = the
// system's) and answers each line of requests with one line of JSON. It returns
// after an answer that only a fresh child could better, one without a working
// library, and when requests ends, even while a call into the library hangs:
// then the caller must end the process.
func Serve(requests io.Reader, answers io.Writer, path string) error {
	lines, gone := make(chan struct{}), make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	go func() {
		in := bufio.NewScanner(requests)
		for in.Scan() {
			if in.Text() != ask {
				gone <- fmt.Errorf("read request %q: want %q", in.Text(), ask)
				return
			}
			select {
			case lines <- struct{}{}:
			case <-done:
				return
			}
		}
		gone <- in.Err()
	}()

	finished := make(chan error, 1)
	go func() { finished <- answer(lines, answers, path) }()
	select {
	case err := <-gone:
		return err
	case err := <-finished:
		return err
	}
}

// answer loads the library with the first request, so that a hang there is met
// by the deadline of a request too.
func answer(requests <-chan struct{}, answers io.Writer, path string) error {
	out := json.NewEncoder(answers)
	var lib surveyor
	for range requests {
		s, err := look(&lib, path)
		if err != nil {
			s = Survey{Problem: err.Error(), Refused: true}
			lib = nil
		}
		if err = out.Encode(s); err != nil {
			return fmt.Errorf("write survey: %w", err)
		}
		if lib == nil {
			break
		}
	}
	return nil
}

// look surveys with the library, which it loads where that has not been done.
func look(lib *surveyor, path string) (Survey, error) {
	if *lib == nil {
		opened, err := open(path)
		if err != nil {
			return Survey{}, err
		}
		*lib = opened
	}
	return (*lib).survey()
}
