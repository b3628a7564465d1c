package milp

import (
	"context"
	"crypto/sha256"
	_ "embed" // highs.sha256
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero"
)

// highsSum is the SHA-256 and the file name of the one WebAssembly module that
// highs_call.go knows: that of the npm package highs of the version in its
// name, which has HiGHS of the same version. scripts/setup fetches it and checks
// it by the same line. Its exports have other names in every other build.
//
//go:embed highs.sha256
var highsSum string

// highsMemory bounds what a solve may allocate, in pages of 64 KiB: 1 GiB.
const highsMemory = 1 << 14

// HiGHS is the solver of that name, as WebAssembly inside this process.
type HiGHS struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule // once ready is closed, unless err
	err     error
	ready   chan struct{}
}

// CacheDir is where scripts/setup puts what is fetched, and compiled code is kept.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w: set XDG_CACHE_HOME", err)
	}
	return filepath.Join(dir, "bellows", "solvers"), nil
}

// OpenHiGHS reads the module in dir, checks that it is the right one, and goes
// on to compile it in the background: some seconds once, then the compiled code
// is found in dir. The first Solve waits for that.
func OpenHiGHS(dir string) (*HiGHS, error) { return openHiGHS(dir, highsMemory) }

func openHiGHS(dir string, memory uint32) (*HiGHS, error) {
	want, name, ok := strings.Cut(strings.TrimSpace(highsSum), "  ")
	if !ok {
		panic("milp: highs.sha256 is not a line of sha256sum")
	}
	path := filepath.Join(dir, name)
	code, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open HiGHS: %w: fetch it with scripts/setup solver", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open HiGHS: %w", err)
	}
	if sum := sha256.Sum256(code); hex.EncodeToString(sum[:]) != want {
		return nil, fmt.Errorf("open HiGHS: the SHA-256 of %s is %x, not %s: delete it and fetch it again with scripts/setup solver", path, sum, want)
	}
	compiled := filepath.Join(dir, "compiled")
	cache, err := wazero.NewCompilationCacheWithDir(compiled)
	if err != nil {
		return nil, fmt.Errorf("open HiGHS: keep compiled code: %w: make %s a directory that you may write to", err, dir)
	}
	config := wazero.NewRuntimeConfig().WithCompilationCache(cache).WithCloseOnContextDone(true).WithMemoryLimitPages(memory)
	h := &HiGHS{ready: make(chan struct{})}
	ctx := context.Background() // nothing can hasten or end a compilation; Close waits for it
	h.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	go func() {
		defer close(h.ready)
		if h.err = provideHost(ctx, h.runtime); h.err == nil {
			h.module, h.err = h.runtime.CompileModule(ctx, code)
		}
		if h.err != nil {
			h.err = fmt.Errorf("compile HiGHS: %w: delete %s, where compiled code is kept, and try again", h.err, compiled)
		}
	}()
	return h, nil
}

// Name implements Solver.
func (*HiGHS) Name() string { return "highs" }

// Close waits for the compilation and frees the code.
func (h *HiGHS) Close() error {
	<-h.ready
	if err := h.runtime.Close(context.Background()); err != nil {
		return fmt.Errorf("close HiGHS: %w", err)
	}
	return nil
}
