package contain

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
)

// The kernel's instructions that the filter needs (linux/bpf.h; eBPF instruction set, RFC 9669).
const (
	bpfLoadWord   = 0x61 // dst = *(u32 *)(src + off)
	bpfAnd        = 0x57 // dst &= imm
	bpfSet        = 0xb7 // dst = imm
	bpfJumpEqual  = 0x15 // if dst == imm, by off
	bpfJumpUneq   = 0x55 // if dst != imm, by off
	bpfJumpAbove  = 0x25 // if dst > imm, by off
	bpfExit       = 0x95
	bpfCharDevice = 2 // BPF_DEVCG_DEV_CHAR, in the lower half of the first word
)

// instruction is one of the kernel's.
type instruction struct {
	code uint8
	dst  uint8
	src  uint8
	off  int16
	imm  int32
}

// deviceFilter is the program: it is asked for each device file that a process
// opens or makes, with the kind of file and access, major and minor in three words
// at r1, and answers 0 for no.
func deviceFilter(d run.DeviceFiles) []instruction {
	const r0, r1, r2 = 0, 1, 2
	p := []instruction{
		{code: bpfLoadWord, dst: r2, src: r1, off: 0},
		{code: bpfAnd, dst: r2, imm: 0xffff},
		{code: bpfJumpUneq, dst: r2, imm: bpfCharDevice},
		{code: bpfLoadWord, dst: r2, src: r1, off: 4},
		{code: bpfJumpUneq, dst: r2, imm: int32(d.Major)}, //nolint:gosec // a major number has 12 bits
		{code: bpfLoadWord, dst: r2, src: r1, off: 8},
		{code: bpfJumpAbove, dst: r2, imm: int32(d.Last)}, //nolint:gosec // a minor number has 20 bits
	}
	for _, minor := range d.Granted {
		p = append(p, instruction{code: bpfJumpEqual, dst: r2, imm: int32(minor)}) //nolint:gosec // as above
	}
	p = append(p, instruction{code: bpfSet, dst: r0, imm: 0}, instruction{code: bpfExit})
	yes := len(p)
	for i := range p {
		switch p[i].code {
		case bpfJumpUneq, bpfJumpAbove, bpfJumpEqual:
			p[i].off = int16(yes - i - 1) //nolint:gosec // a few for each device of a machine
		}
	}
	return append(p, instruction{code: bpfSet, dst: r0, imm: 1}, instruction{code: bpfExit})
}

// encode puts a program into the kernel's form.
func encode(p []instruction) []byte {
	var b []byte
	for _, in := range p {
		regs := in.dst | in.src<<4
		if bigEndian() {
			regs = in.dst<<4 | in.src
		}
		b = append(b, in.code, regs)
		b = binary.NativeEndian.AppendUint16(b, uint16(in.off)) //nolint:gosec // the same bits
		b = binary.NativeEndian.AppendUint32(b, uint32(in.imm)) //nolint:gosec // the same bits
	}
	return b
}

func bigEndian() bool { return binary.NativeEndian.Uint16([]byte{0, 1}) == 1 }

// progLoad and progAttach are the kernel's arguments, as far as they are needed (union bpf_attr).
type progLoad struct {
	kind, count       uint32
	program, license  uint64
	logLevel, logSize uint32
	logBuffer         uint64
	kernel, flags     uint32
}

type progAttach struct {
	target, program, kind, flags uint32
}

// filterDevices lets the processes of a v2 cgroup and below open no device files but
// those that they may. The filter goes with the cgroup. Others', on groups above,
// stay in force beside it, and what is done to those does not take it away.
func filterDevices(dir string, d run.DeviceFiles) error {
	program, license := encode(deviceFilter(d)), []byte("Apache-2.0\x00")
	var still runtime.Pinner // the kernel is told addresses
	still.Pin(&program[0])
	still.Pin(&license[0])
	defer still.Unpin()
	load := progLoad{
		kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, count: uint32(len(program) / 8), //nolint:gosec // a few
		program: address(program), license: address(license),
	}
	fd, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load))
	if err != nil {
		return fmt.Errorf("load a device filter into the kernel: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // the cgroup has its own reference
	group, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open cgroup %s: %w", dir, err)
	}
	defer unix.Close(group) //nolint:errcheck // nothing was written to it
	attach := progAttach{
		target: uint32(group), program: uint32(fd), //nolint:gosec // descriptors
		kind: unix.BPF_CGROUP_DEVICE, flags: unix.BPF_F_ALLOW_MULTI,
	}
	if _, err = bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&attach), unsafe.Sizeof(attach)); err != nil {
		return fmt.Errorf("put a device filter on cgroup %s: %w", dir, err)
	}
	return nil
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

func bpf(command uintptr, argument unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(argument), size)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
