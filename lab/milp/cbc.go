package milp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CBC is the executable cbc of COIN-OR, as Debian's package coinor-cbc has it.
type CBC struct{ path string }

// OpenCBC finds cbc on PATH.
func OpenCBC() (*CBC, error) {
	path, err := exec.LookPath("cbc")
	if err != nil {
		return nil, fmt.Errorf("open cbc: %w: install it (apt-get install coinor-cbc), or use --solver highs", err)
	}
	return &CBC{path}, nil
}

// Name implements Solver.
func (*CBC) Name() string { return "cbc" }

// Close implements Solver; CBC holds nothing between two models.
func (*CBC) Close() error { return nil }

// Solve implements Solver. It runs cbc on files in a directory of its own.
func (c *CBC) Solve(ctx context.Context, m *Model, limit time.Duration) (a Answer, err error) {
	dir, err := os.MkdirTemp("", "bellows-cbc-*")
	if err != nil {
		return Answer{}, fmt.Errorf("make a directory for cbc's files: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	model, solution := filepath.Join(dir, "model.lp"), filepath.Join(dir, "solution.txt")
	if err = writeModel(model, m); err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit+grace)
	defer cancel()
	seconds := strconv.FormatFloat(limit.Seconds(), 'f', 3, 64)
	begin := time.Now()
	if err = c.run(ctx, model, "-timeMode", "elapsed", "-sec", seconds, "-ratio", "0", "-solve", "-solution", solution, "-quit"); err != nil {
		return Answer{}, err
	}
	took := time.Since(begin)
	a, err = readSolution(solution, m)
	if errors.Is(err, ErrInfeasible) && took >= limit-limit/10 {
		return Answer{}, ErrNoPlan // cbc says so as well where its time ends in the first relaxation
	}
	a.Took = took
	return a, err
}

func writeModel(path string, m *Model) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write cbc's model: %w", err)
	}
	return errors.Join(m.WriteLP(f), f.Close())
}

// run executes cbc. It dies with this process, whatever ends that: the kernel
// sees to it as long as the thread that started it lives, hence the lock.
func (c *CBC) run(ctx context.Context, args ...string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	said := &tail{}
	cmd.Stdout, cmd.Stderr = said, said
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("cbc was ended: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("cbc: %w: its last words: %q", err, said)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

// tailBytes is enough for the lines in which cbc says what is wrong.
const tailBytes = 1 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

// String is the last line that says something.
func (t *tail) String() string {
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return lines[len(lines)-1]
}

// readSolution reads cbc's file: a line on how it ended, then one for each
// variable that is not 0, of which the last three fields are its name, its
// value and its reduced cost.
func readSolution(path string, m *Model) (Answer, error) {
	f, err := os.Open(path)
	if err != nil {
		return Answer{}, fmt.Errorf("read cbc's solution: %w: it wrote none", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	if !lines.Scan() {
		return Answer{}, errors.Join(errors.New("read cbc's solution: the file is empty"), lines.Err())
	}
	a := Answer{Values: make([]float64, len(m.Columns))}
	switch status := lines.Text(); {
	case strings.Contains(status, "nfeasible"):
		return Answer{}, ErrInfeasible
	case strings.Contains(status, "no integer solution"):
		return Answer{}, ErrNoPlan
	case strings.HasPrefix(status, "Optimal"):
		a.Optimal = true
	case !strings.HasPrefix(status, "Stopped"):
		return Answer{}, fmt.Errorf("read cbc's solution: it ended with %q", status)
	}
	column := make(map[string]int, len(m.Columns))
	for c := range m.Columns {
		column[m.Columns[c].Name] = c
	}
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 {
			return Answer{}, fmt.Errorf("read cbc's solution: %q is no variable's line", lines.Text())
		}
		fields = fields[len(fields)-3:]
		c, known := column[fields[0]]
		v, err := strconv.ParseFloat(fields[1], 64)
		if !known || err != nil {
			return Answer{}, fmt.Errorf("read cbc's solution: %q is no value of a variable", lines.Text())
		}
		a.Values[c] = v
	}
	if err := lines.Err(); err != nil {
		return Answer{}, fmt.Errorf("read cbc's solution: %w", err)
	}
	return a, nil
}
