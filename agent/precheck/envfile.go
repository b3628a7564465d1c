package precheck

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
)

// ReadEnvFile reads a job's file of secrets with the rights of the calling thread.
// The file has to belong to the job's owner or root. One that other users could read
// or change is refused, as it is not secret. Errors do not repeat the file's content.
func ReadEnvFile(path string, owner uint32) (map[string]string, error) {
	fail := func(err error, remedy string) (map[string]string, error) {
		return nil, fmt.Errorf("env file %s: %w: %s", path, err, remedy)
	}
	const there = "make it available at the same path on every node, for the owner to read"
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe's writer is not waited for
	if err != nil {
		return fail(plainError(err), there)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fail(plainError(err), there)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return fail(errors.New("it is not a plain file"), there)
	case !ok || stat.Uid != owner && stat.Uid != 0:
		return fail(errors.New("it belongs to another user"), "let the job's owner own it")
	case mode.Perm()&0o077 != 0:
		return fail(fmt.Errorf("its mode %04o lets others read or change it", mode.Perm()), "chmod 600")
	}
	text, err := io.ReadAll(io.LimitReader(f, cluster.MaxEnvFileBytes+1))
	if err != nil {
		return fail(plainError(err), there)
	}
	if len(text) > cluster.MaxEnvFileBytes {
		return fail(fmt.Errorf("it has more than %d bytes", cluster.MaxEnvFileBytes), "keep other data elsewhere")
	}
	env, err := cluster.ParseEnvFile(string(text))
	if err != nil {
		return fail(err, "mend these lines")
	}
	return env, nil
}

// plainError is the system's word without the path, which the message has already.
func plainError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
