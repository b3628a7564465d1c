package milp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// What musl's errno numbers mean, as Emscripten's libc has them.
const (
	errnoBadFile   = 8
	errnoNoFile    = 44
	errnoNoProcess = 52
)

// errAborted is how a C++ exception or an abort inside the module ends it:
// mostly because it needs more memory than it may have.
var errAborted = errors.New("HiGHS aborted: the model may need more memory than the 1 GiB that it may use")

// pageSize is that of WebAssembly's memory.
const pageSize = 1 << 16

// provideHost gives the module what it imports. It is a sandbox without files,
// environment or signals: it can read the time, grow its memory, and end. The
// one-letter names are the build's; each line says the function's own.
func provideHost(ctx context.Context, r wazero.Runtime) error {
	abort := func(context.Context, uint32) { panic(errAborted) }
	file := func(context.Context, uint32) uint32 { return errnoBadFile }
	transfer := func(context.Context, uint32, uint32, uint32, uint32) uint32 { return errnoBadFile }
	b := r.NewHostModuleBuilder("a")
	for name, f := range map[string]any{
		"a": func(context.Context, uint32, uint32, uint32) { panic(errAborted) },                           // __cxa_throw
		"b": abort,                                                                                         // exit
		"c": func(context.Context) float64 { return float64(time.Now().UnixNano()) / 1e6 },                 // emscripten_get_now
		"d": file,                                                                                          // fd_close
		"e": func(context.Context, uint32, uint32, uint32) uint32 { return negative(errnoBadFile) },        // fcntl64
		"g": transfer,                                                                                      // fd_read
		"h": func(context.Context, uint32, uint32, uint32) uint32 { return negative(errnoBadFile) },        // ioctl
		"i": func(context.Context, uint32, uint32, uint32, uint32) uint32 { return negative(errnoNoFile) }, // openat
		"j": func(context.Context) float64 { return float64(time.Now().UnixMilli()) },                      // emscripten_date_now
		"k": func(context.Context) { panic(errAborted) },                                                   // abort
		"l": func(context.Context, uint32, float64) uint32 { return 0 },                                    // setitimer
		"m": func(context.Context, uint32, uint32, uint32, uint32) {},                                      // tzset: UTC
		"n": func(context.Context, uint32, uint32) uint32 { return 0 },                                     // environ_get
		"o": noEnvironment,                                                                                 // environ_sizes_get
		"p": clock,                                                                                         // clock_time_get
		"q": grow,                                                                                          // emscripten_resize_heap
		"r": abort,                                                                                         // proc_exit
		"s": func(context.Context) {},                                                                      // runtime_keepalive_clear
		"t": func(context.Context, uint32, uint64, uint32, uint32) uint32 { return errnoBadFile },          // fd_seek
	} {
		b = b.NewFunctionBuilder().WithFunc(f).Export(name)
	}
	i32 := api.ValueTypeI32
	b = b.NewFunctionBuilder(). // fd_write
					WithGoModuleFunction(api.GoModuleFunc(discard), []api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}).Export("f")
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("provide its imports: %w", err)
	}
	return nil
}

// negative is an errno as a system call returns it.
func negative(errno int32) uint32 { return uint32(-errno) }

// discard takes what is written, to whatever file, and forgets it.
// Its operands on the stack are a file, where pointers and lengths lie, how many
// of them there are, and where to say how much was written.
func discard(_ context.Context, m api.Module, stack []uint64) {
	vectors, count, written := uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	total := uint32(0)
	for n := range count {
		length, _ := m.Memory().ReadUint32Le(vectors + 8*n + 4)
		total += length
	}
	m.Memory().WriteUint32Le(written, total)
	stack[0] = 0
}

func noEnvironment(_ context.Context, m api.Module, count, size uint32) uint32 {
	m.Memory().WriteUint32Le(count, 0)
	m.Memory().WriteUint32Le(size, 0)
	return 0
}

// clock tells the time in nanoseconds: of the day (0), or one that does not jump
// (1). The day's will do for both: what is measured is seconds.
func clock(_ context.Context, m api.Module, id uint32, _ uint64, at uint32) uint32 {
	if id > 1 {
		return errnoNoProcess
	}
	m.Memory().WriteUint64Le(at, uint64(time.Now().UnixNano()))
	return 0
}

// grow makes the memory so many bytes long at least. It returns 0 if that is more than it may be.
func grow(_ context.Context, m api.Module, size uint32) uint32 {
	have := m.Memory().Size()
	if size <= have {
		return 1
	}
	generous := min(size-have+have/5, 64<<20) // a fifth more, so as not to be back at once
	for _, more := range []uint32{max(generous, size-have), size - have} {
		if _, ok := m.Memory().Grow((more + pageSize - 1) / pageSize); ok {
			return 1
		}
	}
	return 0
}
