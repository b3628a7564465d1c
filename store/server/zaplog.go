package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// expected lists messages of etcd that are not logged: about what this package does
// on purpose (one port for HTTP and gRPC, no authentication on the loopback
// address, closing the server), and about refusals, which the caller gets as errors.
var expected = []string{
	"Running http and grpc server on single port",
	"setting up serving from embedded etcd failed",
	"stopping insecure grpc server due to error",
	"stopped insecure grpc server due to error",
	"failed to apply request",
	// A fresh database has no version yet; etcd looks again.
	"Failed to detect schema version",
	"failed to update storage version",
	// A member that does not answer: Server logs that itself, once.
	"prober detected unhealthy status",
	"lost TCP streaming connection with remote peer",
	"peer became inactive",
	"failed to publish local member to cluster through raft",
	"failed to reach the peer URL",
	"failed to get version",
	"stopping secure grpc server due to error",
	"stopped secure grpc server due to error",
	"simple token is not cryptographically signed",
}

// zapTo returns etcd's logger as a writer to log: warnings and errors only. fatal
// decides what happens where etcd would end the process.
func zapTo(log zerolog.Logger, fatal zapcore.CheckWriteHook) *zap.Logger {
	return zap.New(zerologCore{log: log}, zap.WithFatalHook(fatal))
}

// fatalErrors receives the message with which etcd would end the process. During
// the start it panics, and the failed start becomes an error. Later, for example
// on a disk that refuses writes, it blocks the goroutine of etcd forever, since
// anything that etcd did after this could be wrong, and hands the error to tend,
// which ends the server.
type fatalErrors struct {
	started atomic.Bool
	first   chan error // holds one
}

// OnWrite implements zapcore.CheckWriteHook.
func (f *fatalErrors) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, field := range fields {
		if cause, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", entry.Message, cause)
		}
	}
	if !f.started.Load() {
		panic(err)
	}
	select {
	case f.first <- err:
	default: // an earlier error ends the server already
	}
	select {} // forever: the process ends without this goroutine
}

// zerologCore writes zap's entries to a zerolog.Logger.
type zerologCore struct {
	log    zerolog.Logger
	fields []zapcore.Field
}

// Enabled lets warnings and worse through.
func (c zerologCore) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

// With returns a core that adds fields to every entry.
func (c zerologCore) With(fields []zapcore.Field) zapcore.Core {
	c.fields = slices.Concat(c.fields, fields)
	return c
}

// Check accepts every entry that is enabled and not expected.
func (c zerologCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	known := slices.ContainsFunc(expected, func(s string) bool { return strings.HasPrefix(e.Message, s) })
	if !c.Enabled(e.Level) || known {
		return checked
	}
	return checked.AddCore(e, c)
}

// Write logs an entry.
func (c zerologCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(c.fields, fields) {
		f.AddTo(encoder)
	}
	event := c.log.Warn()
	if e.Level >= zapcore.ErrorLevel {
		event = c.log.Error()
	}
	for _, name := range slices.Sorted(maps.Keys(encoder.Fields)) {
		event = event.Str(name, fmt.Sprint(encoder.Fields[name]))
	}
	event.Msg("etcd: " + e.Message)
	return nil
}

// Sync does nothing: zerolog does not buffer.
func (c zerologCore) Sync() error { return nil }
