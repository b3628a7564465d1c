// Package sdk carries the Python module that training scripts import.
//
// It promises one file, bellows.py, that needs Python 3.8 or later and nothing
// else. The host of workers writes Module as FileName into a directory and
// puts that directory first on PYTHONPATH; so scripts have it without
// installing anything, in the version of the binary that runs them. A second file,
// bellows_verify.py, is for `bellows verify` alone: it observes a training process. A third,
// verify_site.py, has Python load both in scripts that do not import the module.
// pyproject.toml and wheel make of bellows.py what `pip install ./sdk` installs, for
// editors and type checkers; workers never use that.
package sdk

import _ "embed"

// FileName is the name under which Python finds the module.
const FileName = "bellows.py"

// Module is the module's source. Treat it as read-only.
//
//go:embed bellows.py
var Module []byte

// SiteFileName is the name under which Python finds Site at its start.
const SiteFileName = "sitecustomize.py"

// Site is the source of what has Python import Module in scripts that do not. Treat it as read-only.
//
//go:embed verify_site.py
var Site []byte

// HooksFileName is the name under which Module finds Hooks.
const HooksFileName = "bellows_verify.py"

// Hooks is the source of what observes a training process. Treat it as read-only.
//
//go:embed bellows_verify.py
var Hooks []byte

// WorkerSite is the source of what Python imports at the start of a worker, a SiteFileName: it has the script run
// ahead where the shim asks for that. Treat it as read-only.
//
//go:embed site_worker.py
var WorkerSite []byte

// AheadFileName is the name under which WorkerSite finds Ahead.
const AheadFileName = "bellows_ahead.py"

// Ahead is the source of what runs a script ahead of its generation, and parks it. Treat it as read-only.
//
//go:embed ahead.py
var Ahead []byte

// EarlyFileName is the name under which Ahead finds Early.
const EarlyFileName = "bellows_early.py"

// EarlyStatus is the exit status of a worker that cannot use what it imported early (early.py: STATUS).
const EarlyStatus = 87

// EarlySignal ends such a worker where it is a child of it that cannot (early.py: SIGNAL).
const EarlySignal = 64

// EarlyLesson is what the shim tells the next process then, so that it imports nothing early (early.py: LESSON).
const EarlyLesson = "early"

// Early is the source of what imports early what frameworks import late. See ADR 59. Treat it as read-only.
//
//go:embed early.py
var Early []byte

// LeaveFileName is the name under which WorkerSite finds Leave.
const LeaveFileName = "bellows_leave.py"

// Leave is the source of what lets a worker leave at once when its script has ended. Treat it as read-only.
//
//go:embed leave.py
var Leave []byte
