package warm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

// showPlan has the kernel show the environment of a released process as that of one that was executed with the plan's
// variables: in /proc/PID/environ, which the script and others may read. The process has taken all strings of
// its environment from there before it said that it can go on. What is longer than there is room for is left as it is.
func (p *Parked) showPlan(plan map[string]string) error {
	b, err := os.ReadFile(proc.Root.File(p.pid, "stat"))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	const envStart, envEnd = 50 - 3, 51 - 3 // counted from the state, which is the third
	if len(fields) <= envEnd {
		return errors.New("the kernel does not say where its environment lies")
	}
	start, errStart := strconv.ParseInt(fields[envStart], 10, 64)
	end, errEnd := strconv.ParseInt(fields[envEnd], 10, 64)
	if err = errors.Join(errStart, errEnd); err != nil || end-start <= 0 || end-start > maxEnviron {
		return fmt.Errorf("its environment lies from %d to %d: %w", start, end, err)
	}
	mem, err := os.OpenFile(proc.Root.File(p.pid, "mem"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	area := make([]byte, end-start)
	if _, err = mem.ReadAt(area, start); err != nil {
		return err
	}
	text := withPlan(area, plan)
	if len(text) > len(area) {
		return fmt.Errorf("%d bytes, and there is room for %d", len(text), len(area))
	}
	_, err = mem.WriteAt(append(text, make([]byte, len(area)-len(text))...), start)
	return err
}

// maxEnviron bounds what the kernel shows of an environment, in bytes: more than it lets a program be executed with.
const maxEnviron = 8 << 20

// withPlan is an environment as the kernel has it, with a plan's variables and without what the process was told to run ahead by.
func withPlan(area []byte, plan map[string]string) []byte {
	var had []string
	for entry := range strings.SplitSeq(string(area), "\x00") {
		if entry != "" && !strings.HasPrefix(entry, aheadVariable+"=") {
			had = append(had, entry)
		}
	}
	sorted := slices.IsSorted(had)
	all := append(had, run.Listed(plan)...)
	if sorted { // as the shim has executed it, and no wrapper between
		slices.Sort(all)
	}
	return []byte(strings.Join(all, "\x00") + "\x00")
}
