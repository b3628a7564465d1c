"""Bellows: elastic training that can be resized, moved and resumed.

A training loop needs three things to be elastic: it begins where the last
checkpoint ended, it asks before each step whether to stop, and it takes its
samples by global step instead of by worker::

    import bellows

    checkpoint = bellows.resume()
    step = checkpoint.step if checkpoint else 0
    if checkpoint:
        model.load_state_dict(torch.load(checkpoint.shard(0) + "/model.pt"))

    def write(directory):
        if bellows.rank() == 0:
            torch.save(model.state_dict(), directory + "/model.pt")

    while step < STEPS and not bellows.should_stop(step):
        for i in bellows.indices(step, len(dataset)):
            ...                     # this worker's part of global batch `step`
        step += 1                   # now `step` optimiser steps are finished
        bellows.report(step, loss=loss)
        if step % 500 == 0:
            bellows.save(step, write)
    bellows.save(step, write)

Throughout, ``step`` counts from 0: ``should_stop(step)`` and ``indices(step)``
speak of the step about to begin, ``save(step, ...)`` and ``report(step, ...)``
of the number of steps finished. Between two steps these are the same number.

The same script runs without Bellows (``python train.py``, or under any
launcher that sets RANK and WORLD_SIZE); see `standalone`.

This file needs Python 3.8 or later and nothing else. Its functions may be
called from any thread of the training process, `should_stop` from one of them
only. Processes forked or spawned by it, such as data-loader workers, may ask
for ranks, positions and indices; only the training process itself talks to
Bellows.
"""

import atexit
import errno
import functools
import hashlib
import json
import math
import operator
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

__all__ = [
    "Batches",
    "Checkpoint",
    "SaveError",
    "batch_size",
    "global_indices",
    "indices",
    "local_rank",
    "managed",
    "position",
    "rank",
    "report",
    "resume",
    "save",
    "should_stop",
    "standalone",
    "world_size",
]

PROTOCOL_VERSION = 1

DEFAULT_BATCH_SIZE = 256  # without Bellows, unless `standalone` or BELLOWS_BATCH_SIZE says otherwise
DEFAULT_DIRECTORY = "checkpoints"

# Bellows answers at once from the same machine, after one small write to disk.
# After this long no answer will come.
SAVE_ANSWER_S = 60.0
# Sending blocks only if the other end does not read.
SEND_S = 10.0
# Progress is for people to look at.
REPORT_INTERVAL_S = 1.0
# No message of the protocol is longer; more without a newline is not Bellows.
MAX_LINE_BYTES = 1 << 20


class SaveError(RuntimeError):
    """The checkpoint does not count: Bellows did not confirm that it has it.

    The training state is unharmed. Training on is safe, as is saving again.
    """


# ---------------------------------------------------------------------------
# Who am I
# ---------------------------------------------------------------------------


def rank() -> int:
    """Return this worker's rank, 0 <= rank < world_size(). It may differ after a rescale."""
    return _integer(os.environ, "RANK", 0)


def world_size() -> int:
    """Return the number of workers. It is fixed for the life of this process."""
    return _integer(os.environ, "WORLD_SIZE", 1)


def local_rank() -> int:
    """Return this worker's rank on its machine, as in ``torch.cuda.set_device(local_rank())``."""
    return _integer(os.environ, "LOCAL_RANK", 0)


def batch_size() -> int:
    """Return the number of samples of one global step, over all workers."""
    return _run.batch


def managed() -> bool:
    """Tell whether this script was started by Bellows."""
    return bool(os.environ.get("BELLOWS_WORKER_SOCKET"))


def standalone(batch_size: Optional[int] = None, directory: Optional[str] = None) -> None:
    """Say what to use where the environment says nothing, as in runs without Bellows.

    ``batch_size`` is the global batch (otherwise 256), ``directory`` is where
    checkpoints go (otherwise ./checkpoints). $BELLOWS_BATCH_SIZE and
    $BELLOWS_CHECKPOINT_DIR win, and under Bellows both are set. Call it before
    anything else.
    """
    if batch_size is not None and not os.environ.get("BELLOWS_BATCH_SIZE"):
        if batch_size < 1:
            raise ValueError(f"batch_size {batch_size}: use 1 or more")
        _run.batch = _whole("batch_size", batch_size)
        _run.tell_spawned()
    if directory is not None and not os.environ.get("BELLOWS_CHECKPOINT_DIR"):
        _run.directory = os.path.abspath(directory)


# ---------------------------------------------------------------------------
# Checkpoints
# ---------------------------------------------------------------------------


class Checkpoint(NamedTuple):
    """A complete checkpoint to resume from."""

    path: str  # its directory, absolute
    step: int  # optimiser steps finished
    samples: int  # samples consumed since the start of training; -1 if the script did not say
    world_size: int  # how many workers saved it

    def shards(self) -> List[str]:
        """Return the directories that the ranks saved, in rank order."""
        return [os.path.join(self.path, name) for name in sorted(os.listdir(self.path)) if _RANK_DIR.match(name)]

    def shard(self, rank: int) -> str:
        """Return the directory that one rank saved."""
        if not 0 <= rank < self.world_size:
            raise ValueError(f"shard of rank {rank}: {self.path} was saved by ranks 0 to {self.world_size - 1}")
        return os.path.join(self.path, _rank_dir(rank))


def resume() -> Optional[Checkpoint]:
    """Return the checkpoint to start from, or None to start from the beginning.

    Every rank gets the same answer. A script that gets a checkpoint must begin
    at its step: `indices` counts from there.
    """
    return _run.resume()


def save(step: int, write: Callable[[str], object], samples: Optional[int] = None) -> None:
    """Save this rank's part of the checkpoint of ``step`` finished optimiser steps.

    Every rank calls it at the same step. ``write(directory)`` puts this rank's
    files into a directory made for it; a rank with nothing to add may write
    nothing. The directory gets its final name only after ``write`` has returned,
    so that a crash leaves nothing that looks like a checkpoint. When `save`
    returns, Bellows knows of this rank's part; the checkpoint counts once all
    ranks have got this far and their files were verified and made durable,
    which happens beside the training.

    Saving a step a second time, or the step resumed from, does nothing.
    ``samples`` defaults to ``position(step)``, or to "unknown" where that is.

    Raises what ``write`` raises, OSError if the directory cannot be made, and
    SaveError if Bellows does not confirm. Where the disk is full or its file
    system fails, however ``write`` says so, Bellows hears of it: a worker that
    ends then has not failed.
    """
    step = _whole("step", step)
    _run.save(step, write, _run.consumed(step) if samples is None else _whole("samples", samples))


# ---------------------------------------------------------------------------
# Progress
# ---------------------------------------------------------------------------


def should_stop(step: int) -> bool:
    """Ask whether to stop instead of beginning ``step``: if True, save and exit with status 0.

    Call it before every step, on every rank. It costs no I/O. All ranks get
    the same answer for the same step: while they agree on the last one, which
    takes some milliseconds, the call waits. Without Bellows it returns True
    after a SIGTERM.
    """
    return _run.should_stop(_whole("step", step))


def report(step: int, samples: Optional[int] = None, loss: Optional[float] = None) -> None:
    """Tell people how far training is: ``step`` optimiser steps are finished.

    Call it as often as you like: at most one report a second is passed on, and
    only then is ``loss`` (a number, or anything float() takes) looked at.
    """
    _run.report(_whole("step", step), None if samples is None else _whole("samples", samples), loss)


# ---------------------------------------------------------------------------
# Which samples
# ---------------------------------------------------------------------------


def position(step: int) -> int:
    """Return how many samples are consumed, since the start of training, when ``step`` begins.

    The count goes on through rescales, also where they change the batch size.
    """
    samples = _run.consumed(_whole("step", step))
    if samples < 0:
        raise ValueError(
            f"step {step}: the checkpoint that this run resumed from does not say how many samples were consumed: "
            "save with bellows.save, or write samples=<N> into COMPLETE"
        )
    return samples


def indices(step: int, dataset_size: int, seed: Optional[int] = 0) -> List[int]:
    """Return which samples of the data set this rank takes in global step ``step``.

    The data is read in passes, each in an order of its own that depends on
    ``seed`` only (None: no shuffling). A global step takes the next
    `batch_size` samples of that order, and each rank an even, contiguous part
    of these. So what a step learns from does not depend on the number of
    workers, and over a rescale no sample is skipped or seen twice.

    The parts differ by one sample if the batch does not divide evenly; then
    weigh each rank's mean loss by ``len(indices) * world_size() / batch_size()``.
    """
    first, r, w = position(step), rank(), world_size()
    return _samples(first + _run.batch * r // w, first + _run.batch * (r + 1) // w, dataset_size, seed)


def global_indices(step: int, dataset_size: int, seed: Optional[int] = 0) -> List[int]:
    """Return the samples of global step ``step`` over all ranks, in rank order."""
    first = position(step)
    return _samples(first, first + _run.batch, dataset_size, seed)


class Batches:
    """The batches of this rank from one step to another: a ``batch_sampler`` for torch's DataLoader.

    ``DataLoader(data, batch_sampler=bellows.Batches(step, STEPS, len(data)), num_workers=4)``
    """

    def __init__(self, start: int, stop: int, dataset_size: int, seed: Optional[int] = 0) -> None:
        self.start, self.stop, self.dataset_size, self.seed = start, stop, dataset_size, seed

    def __len__(self) -> int:
        return max(0, self.stop - self.start)

    def __iter__(self) -> Iterator[List[int]]:
        for step in range(self.start, self.stop):
            yield indices(step, self.dataset_size, self.seed)


def _samples(first: int, last: int, size: int, seed: Optional[int]) -> List[int]:
    size = _whole("dataset_size", size)
    if size < 1:
        raise ValueError(f"dataset_size {size}: use 1 or more")
    if seed is None:
        return [p % size for p in range(first, last)]
    found: List[int] = []
    while first < last:
        epoch, offset = divmod(first, size)
        end = min(last, (epoch + 1) * size)
        found += _permuted(offset, offset + end - first, size, _rounds(size, seed, epoch))
        first = end
    return found


# A pass over the data is a permutation that is computed place by place instead
# of being stored: a Feistel network on pairs (a, b) with a few more pairs than
# samples, entered again until it lands on a sample. It gives the same order on
# every Python and machine. What its rounds add is looked up in tables with as
# many entries as the root of the data set's size, so that a batch costs a
# fraction of a millisecond; for sizes beyond _TABLED they would be in the way.
_ROUNDS = 6
_WORD = (1 << 64) - 1
_TABLED = 1 << 32


@functools.lru_cache(maxsize=16)
def _round_keys(seed: int, epoch: int) -> List[int]:
    digest = hashlib.sha512(f"bellows {seed} {epoch}".encode()).digest()
    return [int.from_bytes(digest[8 * i : 8 * i + 8], "little") for i in range(_ROUNDS)]


def _mixed(value: int) -> int:
    z = value * 0x9E3779B97F4A7C15 & _WORD
    z = (z ^ z >> 32) * 0xD6E8FEB86659FD93 & _WORD
    return z ^ z >> 32


class _Row:
    """What one round adds, for each value of the half that it reads: computed when asked for."""

    def __init__(self, key: int, modulus: int) -> None:
        self.key, self.modulus = key, modulus

    def __getitem__(self, value: int) -> int:
        return _mixed(value + self.key) % self.modulus


def _shape(size: int) -> Tuple[int, int]:
    height = math.isqrt(size - 1) + 1 if size > 1 else 1
    return height, -(-size // height)


@functools.lru_cache(maxsize=2)  # this pass and the next
def _rounds(size: int, seed: int, epoch: int) -> List[Tuple[Any, Any]]:
    height, width = _shape(size)
    keys = _round_keys(seed, epoch)
    rows: List[Tuple[Any, Any]] = [(_Row(even, height), _Row(odd, width)) for even, odd in zip(keys[0::2], keys[1::2])]
    if size <= _TABLED:
        rows = [([even[b] for b in range(width)], [odd[a] for a in range(height)]) for even, odd in rows]
    return rows


def _permuted(first: int, last: int, size: int, rounds: List[Tuple[Any, Any]]) -> List[int]:
    height, width = _shape(size)
    found = []
    for x in range(first, last):
        while True:
            a, b = divmod(x, width)
            for even, odd in rounds:
                a = (a + even[b]) % height
                b = (b + odd[a]) % width
            x = a * width + b
            if x < size:
                break
        found.append(x)
    return found


# ---------------------------------------------------------------------------
# The connection to Bellows
# ---------------------------------------------------------------------------


class _Link:
    """This worker's end of $BELLOWS_WORKER_SOCKET: a JSON object a line, both ways.

    A daemon thread reads. What it learns lies under one condition variable:

        new --welcome--> running --hold--> held (no step begins) --stop_after N--> steps up to N may begin
         |                  |                |
         +------------------+----------------+--> lost: the socket broke. It never comes back: what
                                                  is at the other end kills its workers when it dies.

    No step begins before the welcome: the other end would not know of it.

    If no rank at all has begun a step there is nothing to save, and no step to
    agree on: instead of stop_after there comes a SIGTERM.
    """

    def __init__(self, path: str, rank: int) -> None:
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._welcome = False  # the other end knows of us, and would hold us
        self._held = False
        self._stop_after: Optional[int] = None
        self._begun = -1  # the highest step that should_stop has let begin
        self._confirmed = -1  # the newest step that Bellows has answered saved_ok for
        self._refused: Optional[str] = None  # the newest error, until a save takes it
        self._lost: Optional[str] = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(SEND_S)
            self._socket.connect(path)
        except OSError as err:
            self._lose(f"connect to {path}: {err}")
            return
        self._send({"hello": {"version": PROTOCOL_VERSION, "rank": rank, "pid": os.getpid()}})
        self._reader = threading.Thread(target=self._read, name="bellows", daemon=True)
        self._reader.start()

    def should_stop(self, step: int) -> bool:
        with self._changed:
            while not self._welcome and self._lost is None:
                self._changed.wait()
            while self._held and self._stop_after is None and step > self._begun and self._lost is None:
                self._changed.wait()
            if self._stop_after is not None:
                stop = step > self._stop_after
            else:
                # A shim that dies while it holds this rank is about to end it too.
                stop = self._held and step > self._begun
            if not stop:
                self._begun = max(self._begun, step)
            return stop

    def saved(self, step: int, samples: int, directory: str) -> None:
        with self._changed:
            self._refused = None
        self._send({"saved": {"step": step, "samples": samples, "dir": directory}})
        deadline = time.monotonic() + SAVE_ANSWER_S
        with self._changed:
            while self._confirmed != step:
                if self._refused is not None:
                    raise SaveError(f"save step {step}: Bellows refused: {self._refused}")
                if self._lost is not None:
                    raise SaveError(f"save step {step}: {self._lost}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise SaveError(f"save step {step}: no answer from Bellows in {SAVE_ANSWER_S:g} s")
                self._changed.wait(left)

    def progress(self, step: int, samples: int, loss: Optional[float]) -> None:
        self._send({"progress": {"step": step, "samples": samples, "loss": loss}})

    def no_room(self, step: int, reason: str, transient: bool) -> None:
        """Say why this rank is about to fail: a full or failing disk is not the script's bug, and is waited out."""
        told: Dict[str, Any] = {"step": step, "reason": reason}
        if transient:
            told["transient"] = True
        self._send({"no_room": told})

    def lost(self) -> Optional[str]:
        with self._changed:
            return self._lost

    def forget(self) -> None:
        """Let go of the socket in a forked child, without a word to the other end."""
        self._socket.close()

    def _send(self, message: Dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        try:
            with self._sending:
                self._socket.sendall(line)
        except OSError as err:
            self._lose(f"send to Bellows: {err}")

    def _lose(self, why: str) -> None:
        with self._changed:
            first, self._lost = self._lost is None, self._lost or why
            self._changed.notify_all()
        if first:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)  # so that the other end knows, too
            except OSError:
                pass  # it does
            _warn("lost the connection to Bellows, nothing will be saved from now on: " + why)

    def _read(self) -> None:
        why = "Bellows closed the connection"
        try:
            for line in self._lines():
                message = json.loads(line)
                if not isinstance(message, dict):
                    raise ValueError(f"{message!r} is not an object")
                for kind, value in message.items():
                    self._take(kind, value)
        except (OSError, ValueError, TypeError) as err:
            why = f"read from Bellows: {err}"
        self._lose(why)

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        while True:
            try:
                data = self._socket.recv(65536)
            except socket.timeout:  # the time-out is for sending
                continue
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
            if len(rest) > MAX_LINE_BYTES:
                raise ValueError(f"a line of more than {MAX_LINE_BYTES} bytes")

    def _take(self, kind: str, value: Any) -> None:
        if kind == "welcome":
            with self._changed:
                self._welcome = True
                self._changed.notify_all()
        elif kind == "hold":
            self._hold()
        elif kind == "stop_after":
            self._release(int(value))
        elif kind == "saved_ok":
            with self._changed:
                self._confirmed = int(value)
                self._changed.notify_all()
        elif kind == "error":
            _warn(f"Bellows says: {value}")
            with self._changed:
                self._refused = str(value)
                self._changed.notify_all()
        # Other messages are a newer Bellows's, which knows that we are old.

    def _hold(self) -> None:
        with self._changed:
            self._held = True
            begun = self._begun  # fixed from here on: no step begins while held
        self._send({"held": {"begun": begun}})

    def _release(self, stop_after: int) -> None:
        with self._changed:
            if self._stop_after is None:
                self._stop_after = stop_after
            self._changed.notify_all()


# ---------------------------------------------------------------------------
# One run of a script
# ---------------------------------------------------------------------------

_RANK_DIR = re.compile(r"rank-[0-9]{5,}\Z")
_STEP_DIR = re.compile(r"step-([0-9]{12,})\Z")
_STEP_FILE = "step.json"  # without Bellows: what a manifest would say of the step
_STEP_KEYS = ("step", "samples", "world_size")


class _Run:
    """What this process knows of its run. Only the training process of a managed run has a link."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.batch = _integer(environ, "BELLOWS_BATCH_SIZE", DEFAULT_BATCH_SIZE, least=1)
        self.directory = os.path.abspath(environ.get("BELLOWS_CHECKPOINT_DIR") or DEFAULT_DIRECTORY)
        self.start_step = _integer(environ, "BELLOWS_RESUME_STEP", 0)
        self.start_samples = _integer(environ, "BELLOWS_RESUME_SAMPLES", 0)
        if environ.get("BELLOWS_RESUME_FROM") and environ.get("BELLOWS_RESUME_SAMPLES") == "":
            self.start_samples = -1  # the checkpoint does not say
        if environ.get(_PARENT_RUN) and not managed():
            batch, self.start_step, self.start_samples = map(int, environ[_PARENT_RUN].split(","))
            self.batch = self.batch if environ.get("BELLOWS_BATCH_SIZE") else batch
        self.link: Optional[_Link] = None
        self._resume_from = environ.get("BELLOWS_RESUME_FROM") or ""
        self._resume_known = bool(environ.get("BELLOWS_RESUME_STEP"))
        self._kept = self.start_step if self._resume_from and self._resume_known else -1  # needs no saving again
        self._written = -1  # the newest step whose directory this process has put in place
        self._unsent: Optional[Tuple[int, int, Any]] = None  # step, samples, loss
        self._report_due = 0.0
        self._sigterm: Optional[_Sigterm] = None
        self._new_locks()

    def _new_locks(self) -> None:
        self._saving = threading.Lock()
        self._reporting = threading.Lock()

    def connect(self, path: str) -> None:
        # A process that this one spawns sees the mark and keeps off the socket;
        # this one keeps its pid, and may connect, when it executes itself anew.
        if os.environ.setdefault(_PID_MARK, str(os.getpid())) == str(os.getpid()):
            self.link = _Link(path, rank())

    def after_fork(self) -> None:
        """Make a forked child forget the connection; its locks may have been held elsewhere.

        Nor does it ask should_stop: a SIGTERM is to end it, as Process.terminate expects.
        """
        self._new_locks()
        self._unsent = None
        if self._sigterm is not None:
            self._sigterm.undo()
            self._sigterm = None
        if self.link is not None:
            self.link.forget()
            self.link = None

    def tell_spawned(self) -> None:
        """Let processes that this one spawns know what only its script has said."""
        os.environ[_PARENT_RUN] = f"{self.batch},{self.start_step},{self.start_samples}"

    def _training_process(self, call: str) -> None:
        if self.link is None and managed():
            trainer = os.environ.get(_PID_MARK)
            raise RuntimeError(
                f"{call} was called in process {os.getpid()}, but the training process is {trainer}: "
                "call it there, not in a data-loader worker or another child"
            )

    # -- resume ------------------------------------------------------------

    def resume(self) -> Optional[Checkpoint]:
        found = self._given() if self._resume_from else None if managed() else self._newest()
        if found is not None:
            self.start_step, self.start_samples, self._kept = found.step, found.samples, found.step
        elif not managed():  # nor does what a parent of this process has resumed from count
            self.start_step = self.start_samples = 0
        if not managed():
            self.tell_spawned()
        return found

    def _given(self) -> Checkpoint:
        path = os.path.abspath(self._resume_from)
        described = _description(path) or {}
        if not self._resume_known and "step" not in described:
            raise ValueError(f"BELLOWS_RESUME_FROM {path}: no manifest there, and BELLOWS_RESUME_STEP is not set")
        step = self.start_step if self._resume_known else int(described["step"])
        samples = self.start_samples if self._resume_known else int(described.get("samples", 0))
        saved_by = Checkpoint(path, step, samples, int(described.get("world_size", 0)))
        return saved_by if saved_by.world_size else saved_by._replace(world_size=len(saved_by.shards()))

    def _newest(self) -> Optional[Checkpoint]:
        try:
            names = sorted((n for n in os.listdir(self.directory) if _STEP_DIR.match(n)), reverse=True)
        except FileNotFoundError:
            return None
        for name in names:
            path = os.path.join(self.directory, name)
            described = _description(path)
            if described is None:
                continue
            found = Checkpoint(path, described["step"], described["samples"], described["world_size"])
            if len(found.shards()) >= found.world_size:
                return found
        return None

    def consumed(self, step: int) -> int:
        """Return how many samples were consumed when ``step`` begins; -1 if unknown."""
        if step < self.start_step:
            raise ValueError(f"step {step}: this run resumed at step {self.start_step}; start your loop at resume().step")
        return -1 if self.start_samples < 0 else self.start_samples + (step - self.start_step) * self.batch

    # -- save --------------------------------------------------------------

    def save(self, step: int, write: Callable[[str], object], samples: int) -> None:
        self._training_process("save")
        directory = os.path.join(self.directory, _step_dir(step))
        with self._saving:
            if step == self._kept:
                return
            if self.link is None:
                self._write(directory, write, sync=True)
                if rank() == 0:
                    _describe(directory, {"step": step, "samples": samples, "world_size": world_size()})
            else:
                gone = self.link.lost()
                if gone is not None:
                    raise SaveError(f"save step {step}: {gone}")
                # After an unanswered save Bellows may already be reading what
                # lies there: tell it again, but change nothing.
                if self._written != step:
                    link = self.link
                    self._write(directory, write, sync=False, full=lambda why, transient: link.no_room(step, why, transient))
                    self._written = step
                self.link.saved(step, samples, directory)
            self._kept = step

    def _write(
        self, directory: str, write: Callable[[str], object], sync: bool, full: Optional[Callable[[str, bool], None]] = None
    ) -> None:
        final = os.path.join(directory, _rank_dir(rank()))
        fresh = os.path.join(directory, "." + _rank_dir(rank()) + ".tmp")
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            os.makedirs(fresh)
            write(fresh)
            if sync:  # Bellows does it beside the training
                _sync_tree(fresh)
            if os.path.isdir(final):  # of an earlier run in the same place
                shutil.rmtree(final)
            os.rename(fresh, final)
        except BaseException as err:
            why = _full_disk(err, fresh) if full and isinstance(err, Exception) else None
            if full and why:
                full(*why)
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        if sync:
            _sync(directory)
            _sync(os.path.dirname(directory))

    # -- progress ----------------------------------------------------------

    def should_stop(self, step: int) -> bool:
        self._training_process("should_stop")
        if self.link is not None:
            return self.link.should_stop(step)
        if self._sigterm is None:
            self._sigterm = _Sigterm()
        return self._sigterm.caught

    def report(self, step: int, samples: Optional[int], loss: Any) -> None:
        if self.link is None:
            return
        at = self.consumed(step) if samples is None else samples
        with self._reporting:
            now = time.monotonic()
            if now < self._report_due:
                # Kept for the end; a tensor without its graph.
                self._unsent = (step, at, loss.detach() if hasattr(loss, "detach") else loss)
                return
            self._report_due = now + REPORT_INTERVAL_S
            self._unsent = None
        self.link.progress(step, at, _finite(loss))

    def flush(self) -> None:
        """Pass on the report that came too soon after the one before, when the script ends."""
        with self._reporting:
            unsent, self._unsent = self._unsent, None
        if unsent is not None and self.link is not None:
            step, at, loss = unsent
            try:
                loss = _finite(loss)
            except Exception:  # such as of a device that has failed: the script is ending, for a reason of its own
                loss = None
            self.link.progress(step, at, loss)


_PID_MARK = "BELLOWS_SDK_PID"
_PARENT_RUN = "BELLOWS_SDK_RUN"  # without Bellows: batch size, and the step and samples that a parent began with


def _whole(name: str, value: Any) -> int:
    """Make an int of what counts as one, such as numpy's: only that can be told to Bellows."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} {value!r}: use a whole number") from None


def _integer(environ: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    text = environ.get(name) or str(default)
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < least:
        raise ValueError(f"{name}={text!r}: use a whole number, {least} or more")
    return value


def _finite(loss: Any) -> Optional[float]:
    if loss is None:
        return None
    value = float(loss)
    return value if math.isfinite(value) else None  # JSON knows no other numbers


def _step_dir(step: int) -> str:
    if step < 0:
        raise ValueError(f"step {step}: use the number of steps finished, 0 or more")
    return f"step-{step:012d}"


def _rank_dir(rank: int) -> str:
    return f"rank-{rank:05d}"


def _description(path: str) -> Optional[Dict[str, Any]]:
    """Read what is said of the checkpoint in a directory: by Bellows, or by `_describe`."""
    for name in ("MANIFEST.json", _STEP_FILE):
        try:
            with open(os.path.join(path, name), encoding="utf-8") as f:
                described = json.load(f)
        except (OSError, ValueError):
            continue
        if isinstance(described, dict) and all(isinstance(described.get(k), int) for k in _STEP_KEYS):
            return described
    return None


def _describe(path: str, described: Dict[str, int]) -> None:
    final = os.path.join(path, _STEP_FILE)
    with open(final + ".tmp", "w", encoding="utf-8") as f:
        json.dump(described, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(final + ".tmp", final)
    _sync(path)


def _sync_tree(path: str) -> None:
    for directory, _, files in os.walk(path):
        for name in files:
            _sync(os.path.join(directory, name))
        _sync(directory)


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_FULL = (errno.ENOSPC, errno.EDQUOT)
# A file system that is read-only, or fails, until it is mended, or whose server is away for a moment.
_TRANSIENT = (
    errno.EROFS,
    errno.EIO,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.ENOTCONN,
    errno.ESHUTDOWN,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.EREMOTEIO,
)
# More than the last block of a file that was being written when the disk became full.
_PROBE_BYTES = 1 << 20


def _full_disk(err: BaseException, directory: str) -> Optional[Tuple[str, bool]]:
    """Say in words that a write failed because there is no room in a directory, or (True) its file system fails.

    None if it was neither. Writers in C++ and Rust raise errors of their own:
    torch.save says "unexpected pos 384 vs 306". What they have written is still
    there, so it can be tried.
    """
    said = str(err).split("\n", 1)[0]
    cause: Optional[BaseException] = err
    while cause is not None:
        for number in _FULL + _TRANSIENT:
            text = os.strerror(number)
            if isinstance(cause, OSError) and cause.errno == number:
                return str(cause), number in _TRANSIENT
            if text in str(cause):
                return (said if text in said else f"{text}: {type(err).__name__}: {said}"), number in _TRANSIENT
        cause = cause.__cause__ or cause.__context__
    try:
        with open(os.path.join(directory, ".room"), "wb") as f:
            f.write(bytes(_PROBE_BYTES))
            f.flush()
            os.fsync(f.fileno())
    except OSError as probe:
        if probe.errno in _FULL + _TRANSIENT:
            return f"{os.strerror(probe.errno)}: {type(err).__name__}: {said}", probe.errno in _TRANSIENT
    return None


class _Sigterm:
    """Records the first SIGTERM, unless the script has a handler; the second one kills."""

    def __init__(self) -> None:
        self.caught = False
        # Only the main thread may set handlers.
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._catch)

    def _catch(self, number: int, frame: object) -> None:
        self.caught = True
        signal.signal(number, signal.SIG_DFL)

    def undo(self) -> None:
        """Let SIGTERM kill, in a forked child; its only thread counts as the main one."""
        if signal.getsignal(signal.SIGTERM) == self._catch:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _warn(text: str) -> None:
    print("bellows: " + text, file=sys.stderr, flush=True)


_run = _Run(os.environ)
if managed():
    # At import, so that from the first step of any rank on, all ranks are
    # connected: scripts import this before they form their process group.
    _run.connect(os.environ["BELLOWS_WORKER_SOCKET"])
atexit.register(_run.flush)
os.register_at_fork(after_in_child=_run.after_fork)
