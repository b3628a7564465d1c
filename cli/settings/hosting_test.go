package settings

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/host"
	"github.com/bellows-ml/bellows/cli/flags"
)

func TestMemoryOfLaunchers(t *testing.T) {
	t.Parallel()
	parse := func(args ...string) (int64, error) {
		f := flags.New("agent")
		h := hostingFlags(f)
		if err := f.Parse(args); err != nil {
			return 0, err
		}
		var cfg host.Config
		err := h.apply(&cfg)
		return cfg.LauncherMemory, err
	}
	for arg, want := range map[string]int64{"": 0, "8GiB": 8 << 30, "512M": 512 << 20, "0": -1} {
		if got, err := parse("--launcher-memory=" + arg); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", arg, got, err, want)
		}
	}
	for _, arg := range []string{"-1", "much", "10%"} {
		if _, err := parse("--launcher-memory=" + arg); err == nil || !strings.Contains(err.Error(), "--launcher-memory") || !strings.Contains(err.Error(), "512M or 64GiB, or 0") {
			t.Errorf("%q: %v", arg, err)
		}
	}
}
