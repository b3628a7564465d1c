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

Where memory, randomness or the batch size matter: `micro_batches`, `seed`,
`TreeSum` and `lr_scale`. For torch with a DataLoader `torch_load`, `steps` and
`torch_save` take less to write.

This file needs Python 3.8 or later and nothing else; what speaks to torch, numpy
or JAX imports them when it is called. Its functions may be
called from any thread of the training process, `should_stop` from one of them
only. Processes forked or spawned by it, such as data-loader workers, may ask
for ranks, positions and indices; only the training process itself talks to
Bellows.
"""

import atexit
import errno
import functools
import hashlib
import importlib
import itertools
import json
import math
import operator
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

__all__ = [
    "Batches",
    "Checkpoint",
    "GradientNoise",
    "MicroBatch",
    "MicroBatches",
    "SaveError",
    "Seeded",
    "Stream",
    "TreeSum",
    "accelerate_arguments",
    "accumulation_steps",
    "batch_size",
    "deepspeed_arguments",
    "deepspeed_load",
    "deepspeed_save",
    "gain",
    "global_indices",
    "indices",
    "jax_initialize",
    "jax_load",
    "jax_save",
    "lightning_arguments",
    "lightning_callback",
    "local_rank",
    "logical_workers",
    "lr_scale",
    "managed",
    "micro_batches",
    "position",
    "random_state",
    "rank",
    "report",
    "resume",
    "save",
    "seed",
    "set_random_state",
    "sharded_load",
    "sharded_save",
    "should_stop",
    "standalone",
    "steps",
    "stream",
    "torch_load",
    "torch_save",
    "trainer_arguments",
    "trainer_train",
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


def resume(data_changed: bool = False) -> Optional[Checkpoint]:
    """Return the checkpoint to start from, or None to start from the beginning.

    Every rank gets the same answer. A script that gets a checkpoint must begin
    at its step: `indices` counts from there. `indices` refuses a data set of another
    length than the checkpoint was trained on, for its steps would have other
    samples; ``data_changed`` says that it is meant to be another.
    """
    found = _run.resume()
    if data_changed:
        _run.forget_data()
    return found


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


def report(
    step: int,
    samples: Optional[int] = None,
    loss: Optional[float] = None,
    noise_scale: Optional[float] = None,
    base_steps: Optional[float] = None,
) -> None:
    """Tell how far training is: ``step`` optimiser steps are finished.

    Call it as often as you like: at most one report a second is passed on, and
    only then is ``loss`` (a number, or anything float() takes) looked at.
    Where the batch ranges, ``noise_scale`` (`GradientNoise`) says what a larger
    batch is worth, without which the job keeps the smallest, and ``base_steps``
    the sum of `gain` over all steps so far: how far it is in steps of the smallest batch.
    """
    told = _Report(_whole("step", step), None if samples is None else _whole("samples", samples), loss, noise_scale, base_steps)
    _run.report(told)


class _Report(NamedTuple):
    """What a script says of how far it is."""

    step: int
    samples: Optional[int]
    loss: Any
    noise_scale: Optional[float] = None
    base_steps: Optional[float] = None


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
    _run.check_data(step, dataset_size)
    return _samples(first + _run.batch * r // w, first + _run.batch * (r + 1) // w, dataset_size, seed)


def global_indices(step: int, dataset_size: int, seed: Optional[int] = 0) -> List[int]:
    """Return the samples of global step ``step`` over all ranks, in rank order."""
    first = position(step)
    _run.check_data(step, dataset_size)
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
            yield _at(step, indices(step, self.dataset_size, self.seed))


class _Index(int):
    """A sample's index that knows for which step it is taken, also in a data-loader worker: for `Seeded`."""

    step: int


def _at(step: int, found: Iterable[int]) -> List[int]:
    """Have indices know their step."""
    known, shared = [_Index(i) for i in found], {"step": step}
    for i in known:
        i.__dict__ = shared  # one for all of them
    return known  # type: ignore[return-value]


# ---------------------------------------------------------------------------
# Micro-batches: what a device takes at once
# ---------------------------------------------------------------------------


def logical_workers() -> int:
    """Return into how many parts each step is cut whatever the number of workers; 0: into one for each worker."""
    logical = _integer(os.environ, "BELLOWS_LOGICAL_WORKERS", 0)
    if logical and logical % world_size():
        raise ValueError(
            f"BELLOWS_LOGICAL_WORKERS={logical}: {world_size()} workers cannot share them evenly: "
            "use a power of two that is at least the largest number of workers"
        )
    return logical


class MicroBatch(List[int]):
    """Indices of samples that a device takes at once: a list, with what its loss is weighed and seeded by."""

    worker: int  # the logical worker that it belongs to; without logical workers, the rank
    number: int  # which of that worker's micro-batches it is, from 0
    last: bool  # no other of that worker follows in this step
    weight: float  # its part of the global batch

    @classmethod
    def of(cls, indices: Iterable[int], worker: int, number: int, last: bool) -> "MicroBatch":
        """Make one; its weight follows from the batch size."""
        made = cls(indices)
        made.worker, made.number, made.last, made.weight = worker, number, last, 0.0
        made.weight = len(made) / batch_size()
        return made


def accumulation_steps() -> int:
    """Return how many micro-batches each rank takes in one step; the same on all ranks."""
    return _accumulated(logical_workers(), world_size())


def _accumulated(logical: int, world: int) -> int:
    micro = _micro_batch()
    each = -(-batch_size() // (logical or world))  # samples of the largest part
    return max(1, logical // world) * (-(-each // micro) if micro else 1)


def micro_batches(step: int, dataset_size: int, seed: Optional[int] = 0) -> List[MicroBatch]:
    """Return this rank's samples of global step ``step``, cut into what its device takes at once.

    Together they are ``indices(step, dataset_size, seed)``. None has more than
    $BELLOWS_MICRO_BATCH samples (``bellows run --micro-batch``), so a device
    needs as much memory in a small world as in a large one; every rank has
    `accumulation_steps` of them. Sum their gradients before the optimiser's
    step. A loss that is a mean counts ``micro_batch.weight`` of the whole::

        for part in bellows.micro_batches(step, len(dataset)):
            (loss_of(part) * part.weight).backward()

    That makes sums over ranks. DDP takes the mean over them: multiply by
    ``world_size()`` then. Where the batch does not divide evenly, parts differ
    by one sample; one is empty if there are fewer samples than parts.
    """
    return _share().cut(step, indices(step, dataset_size, seed))


class _Share(NamedTuple):
    """How a step is cut for this rank: the same in all steps of a process."""

    workers: range  # the logical workers of this rank; without logical workers, its own number
    parts: int  # of the whole step
    pieces: int  # micro-batches of each part
    batch: int

    def cut(self, step: int, found: List[int]) -> List[MicroBatch]:
        """Cut this rank's samples of a step into its micro-batches."""
        mine = _at(step, found)
        batch, parts, pieces = self.batch, self.parts, self.pieces
        begin = batch * self.workers[0] // parts
        made = []
        for worker in self.workers:
            first, last = (batch * n // parts - begin for n in (worker, worker + 1))
            for n in range(pieces):
                a, b = (first + (last - first) * k // pieces for k in (n, n + 1))
                made.append(MicroBatch.of(mine[a:b], worker, n, n == pieces - 1))
        return made


def _share() -> _Share:
    w, r, logical = world_size(), rank(), logical_workers()
    workers = range(logical * r // w, logical * (r + 1) // w) if logical else range(r, r + 1)
    return _Share(workers, logical or w, _accumulated(logical, w) // len(workers), batch_size())


class MicroBatches:
    """This rank's micro-batches from one step to another, in turn: a ``batch_sampler`` for torch's DataLoader.

    `accumulation_steps` of them make a step.
    """

    def __init__(self, start: int, stop: int, dataset_size: int, seed: Optional[int] = 0) -> None:
        self.start, self.stop, self.dataset_size, self.seed = start, stop, dataset_size, seed

    def __len__(self) -> int:
        return max(0, self.stop - self.start) * accumulation_steps()

    def __iter__(self) -> Iterator[MicroBatch]:
        share = _share()
        for step in range(self.start, self.stop):
            yield from share.cut(step, indices(step, self.dataset_size, self.seed))


def steps(loader: Any) -> Iterator[Iterator[Any]]:
    """Go through the steps of a loader of `MicroBatches` or `Batches`, and yield the batches of each in turn.

    A step has `accumulation_steps` batches with `MicroBatches`, and one with
    `Batches`. Before each step it asks `should_stop`, and ends where that says
    so; calls ``seed(step)``; and after the step it reports it, unless the script has. Saving is
    the script's::

        step = bellows.torch_load(model=model, optimizer=optimizer)
        loader = DataLoader(data, batch_sampler=bellows.MicroBatches(step, STEPS, len(data)))
        for parts in bellows.steps(loader):
            for x, y in parts:
                ...                         # forward and backward
            optimizer.step()
            optimizer.zero_grad()
            step += 1
        bellows.torch_save(step, model=model, optimizer=optimizer)

    ``loader`` is a DataLoader, or `MicroBatches` or `Batches` themselves, whose
    batches are indices. All batches of a step have to be taken.
    """
    batches = loader if isinstance(loader, (Batches, MicroBatches)) else getattr(loader, "batch_sampler", None)
    if not isinstance(batches, (Batches, MicroBatches)):
        raise TypeError(
            f"steps({type(loader).__name__}): its batches are of {type(batches).__name__}: use DataLoader(data, batch_sampler=bellows.MicroBatches(step, STEPS, len(data))), "
            "and give that to no trainer that shares it out again, such as accelerator.prepare"
        )
    each, given = accumulation_steps() if isinstance(batches, MicroBatches) else 1, iter(loader)
    for step in range(batches.start, batches.stop):
        if should_stop(step):
            return
        seed(step)
        parts = itertools.islice(given, each)
        yield parts
        left = sum(1 for _ in parts)
        if left:
            raise ValueError(f"step {step}: {left} of its {each} batches were not taken: train on all of them before the next step")
        if _run.reported <= step:
            report(step + 1)


def _micro_batch() -> int:
    micro = _integer(os.environ, "BELLOWS_MICRO_BATCH", 0)
    if micro > batch_size():
        raise ValueError(f"BELLOWS_MICRO_BATCH={micro}: the whole batch is {batch_size()} samples: use that or less")
    return micro


class TreeSum:
    """Sums of gradients whose every bit is the same for any number of workers: for logical workers.

    Rounding depends on the order of additions, so a ring of 8 workers and one of
    4 disagree in the last bits, and training magnifies that. Here each logical
    worker's gradient is summed by itself, and then pairs are, and pairs of pairs,
    on whichever ranks they are::

        total = bellows.TreeSum(model.parameters())       # not wrapped in DDP
        ...
        optimizer.zero_grad()
        for part in bellows.micro_batches(step, n):
            bellows.seed(step, part)
            loss = loss_of(part) * part.weight
            loss.backward()
            total.add(part, loss)
        loss = total.reduce()                             # each .grad is the sum over all workers now
        optimizer.step()

    It holds for torch on processors, with the same number of threads everywhere,
    for the same build of torch on the same kind of processor. Cost: log2(workers)
    exchanges of the whole gradient, each after the other and after the backward
    pass, instead of one ring beside it; memory for log2(logical workers a rank)
    more gradients; and no micro-batch is larger than a logical worker's part.
    What is not a parameter, such as batch norm's running statistics, is not reduced.
    """

    def __init__(self, parameters: Iterable[Any]) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        logical = logical_workers()
        if logical & (logical - 1) or not logical:
            raise ValueError(f"TreeSum with {logical or 'no'} logical workers: run with --logical-workers 8, or another power of two")
        self._logical = logical
        self._loss: Any = None
        self._whole: List[Tuple[int, List[Any]]] = []  # how many workers a sum is of, and the sum; as in a binary counter
        self._added = 0

    def add(self, part: MicroBatch, loss: Any) -> None:
        """Take in the gradients of a micro-batch, after its backward, and its loss."""
        loss = loss.detach()
        self._loss = loss if self._loss is None else self._loss + loss
        if not part.last:
            return
        torch = sys.modules["torch"]
        sums = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters] + [self._loss.reshape(1)]
        for p in self.parameters:
            p.grad = None
        self._loss, of = None, 1
        self._added += 1
        while self._whole and self._whole[-1][0] == of:
            _, before = self._whole.pop()
            sums, of = [a + b for a, b in zip(before, sums)], 2 * of
        self._whole.append((of, sums))

    def reduce(self) -> Any:
        """Set every parameter's .grad to the sum over all workers, and return that of the losses, a tensor."""
        here, world = self._logical // world_size(), world_size()
        if self._added != here:
            raise ValueError(f"TreeSum.reduce: {self._added} logical workers were added, of {here}: add every micro-batch of the step")
        (_, sums), self._whole, self._added = self._whole[0], [], 0
        distance = 1
        while distance < world:
            sums = _summed_with(rank() ^ distance, sums)
            distance *= 2
        for p, total in zip(self.parameters, sums):
            p.grad = total
        return sums[-1][0]


def _summed_with(peer: int, sums: List[Any]) -> List[Any]:
    """Exchange sums with a rank, and add them; a + b and b + a have the same bits."""
    dist = importlib.import_module("torch.distributed")
    torch = sys.modules["torch"]
    flat: Dict[Any, List[Any]] = {}  # one message for each type of numbers
    for t in sums:
        flat.setdefault(t.dtype, []).append(t)
    theirs = {}
    for kind, tensors in flat.items():
        mine = torch.cat([t.reshape(-1) for t in tensors])
        got = torch.empty_like(mine)
        for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, got, peer)]):
            request.wait()
        theirs[kind] = iter(torch.split(mine + got, [t.numel() for t in tensors]))
    return [next(theirs[t.dtype]).reshape(t.shape) for t in sums]


# ---------------------------------------------------------------------------
# Randomness
# ---------------------------------------------------------------------------


class Stream:
    """Random numbers of one rank, or one micro-batch, in one step; each call makes a new generator at its beginning."""

    def __init__(self, number: int) -> None:
        self.number = number  # 64 bits

    def random(self) -> random.Random:
        """Return a generator of the standard library."""
        return random.Random(self.number)

    def numpy(self) -> Any:
        """Return a ``numpy.random.Generator``."""
        return importlib.import_module("numpy").random.default_rng(self.number)

    def torch(self, device: Any = "cpu") -> Any:
        """Return a ``torch.Generator`` on a device."""
        return importlib.import_module("torch").Generator(device=device).manual_seed(self.number)

    def jax(self) -> Any:
        """Return a key of ``jax.random``."""
        keys = importlib.import_module("jax").random
        return keys.fold_in(keys.PRNGKey(self.number >> 32), self.number & 0xFFFFFFFF)


def stream(step: int, part: Optional[MicroBatch] = None, base: int = 0) -> Stream:
    """Return the random numbers of global step ``step`` for this rank, or for one of its micro-batches.

    They follow from these alone: no two ranks, steps or micro-batches share any,
    and a run that resumes draws what it would have drawn. With logical workers
    a micro-batch has the same stream for any number of workers.
    ``base`` sets apart trainings that should differ.
    """
    who = f"rank {rank()}" if part is None else f"worker {part.worker} part {part.number}"
    return Stream(_stream_number(f"{base} {_whole('step', step)} {who}"))


def seed(step: int, part: Optional[MicroBatch] = None, base: int = 0) -> int:
    """Begin `stream` in the global generators of ``random`` and, where imported, numpy and torch; return its number.

    Call it at the beginning of every step, or with ``part`` of every micro-batch:
    dropout then differs between ranks and between steps, and is not repeated
    after a resume.
    """
    number = stream(step, part, base).number
    _seed_all(number)
    return number


class Seeded:
    """A data set that draws the random numbers of each sample from a stream of the sample and the step.

    Augmentation then is the same for any number of workers and of data-loader
    workers, and differs in each pass. It needs the indices of `Batches`,
    `MicroBatches` or `micro_batches`, which know their step. The global
    generators are afterwards as they were.
    """

    def __init__(self, dataset: Any, base: int = 0) -> None:
        self.dataset, self.base = dataset, base

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        step = getattr(index, "step", None)
        if step is None:
            raise TypeError(f"Seeded[{index!r}]: the index does not know its step: take batches from bellows.Batches or bellows.MicroBatches")
        before = random_state()
        _seed_all(_stream_number(f"{self.base} {step} sample {int(index)}"))
        try:
            return self.dataset[int(index)]
        finally:
            _set_generators(before)


def random_state() -> Dict[str, Any]:
    """Return the states of the global generators: of ``random``, and of numpy and torch where imported.

    For a script that does not call `seed`: each rank saves its own with the
    checkpoint (``torch.save(bellows.random_state(), directory + "/random.pt")``).
    """
    state: Dict[str, Any] = {"rank": rank(), "world_size": world_size(), "random": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        state["numpy"] = [kind, keys.tolist(), *rest]
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: Mapping[str, Any], step: int) -> bool:
    """Go on with the states that this rank has saved; return whether it could.

    After a rescale there are more ranks than states, or fewer: then all ranks
    begin new streams, as `seed` does for ``step``, and False is returned.
    """
    if (state["rank"], state["world_size"]) != (rank(), world_size()):
        seed(step)
        return False
    _set_generators(state)
    return True


def _stream_number(text: str) -> int:
    return int.from_bytes(hashlib.sha512(("bellows stream " + text).encode()).digest()[:8], "little")


def _seed_all(number: int) -> None:
    random.seed(number)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed([number >> 32, number & 0xFFFFFFFF])
    if torch is not None and _has_cuda() and not torch.cuda.is_initialized():
        torch.manual_seed(number)  # it notes the number for when it is
    elif torch is not None:
        # What torch.manual_seed does, without its looking for every kind of device: ten times as fast.
        torch.default_generator.manual_seed(number)
        if _has_cuda():
            torch.cuda.manual_seed(number)


@functools.lru_cache(maxsize=1)
def _has_cuda() -> bool:
    return bool(sys.modules["torch"].cuda.is_available())


def _set_generators(state: Mapping[str, Any]) -> None:
    version, numbers, gauss = state["random"]
    random.setstate((version, tuple(numbers), gauss))
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy" in state:
        kind, keys, *rest = state["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, dtype="uint32"), *rest))
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"].cpu())
        if "cuda" in state:
            torch.cuda.set_rng_state(state["cuda"].cpu())


# ---------------------------------------------------------------------------
# The learning rate where the batch size ranges
# ---------------------------------------------------------------------------

_LR_FILE = "lr.json"  # in rank 0's part of a checkpoint, where a rule is declared


def lr_scale(step: int) -> float:
    """Return by what to multiply the learning rate in global step ``step``.

    It follows the rule that the job's owner has declared (``bellows run
    --lr-rule linear``, or sqrt): the ratio of `batch_size` to the smallest batch
    of the job, or its root. Without a rule it is 1: nothing is applied by guess,
    and nothing unless the script multiplies. With ``--lr-warmup N`` a change is
    made in N equal steps from the first of the new batch size on.
    """
    return _run.lr_change().scale(_whole("step", step))


class _LRChange(NamedTuple):
    """How the factor of the learning rate changes from step ``since`` on."""

    batch: int
    before: float
    after: float
    since: int
    warmup: int

    def scale(self, step: int) -> float:
        if step - self.since + 1 >= self.warmup:
            return self.after
        return self.before + (self.after - self.before) * (step - self.since + 1) / self.warmup


_LR_RULES: Dict[str, Callable[[float], float]] = {"none": lambda ratio: 1.0, "linear": lambda ratio: ratio, "sqrt": math.sqrt}


def _lr_rule() -> str:
    rule = os.environ.get("BELLOWS_LR_RULE") or "none"
    if rule not in _LR_RULES:
        raise ValueError(f"BELLOWS_LR_RULE={rule!r}: use linear, sqrt or none")
    return rule


# ---------------------------------------------------------------------------
# What a batch is worth
# ---------------------------------------------------------------------------


def gain(noise_scale: Optional[float], batch: Optional[int] = None) -> float:
    """Return how many steps of the job's smallest batch one step of ``batch``, by default `batch_size`, is worth.

    By the gradient noise scale (McCandlish et al. 2018; Pollux, 2021): where
    gradients are mostly noise, b samples are worth b / smallest steps, where
    they agree, 1. Without a scale it is 1. Add it up over the steps, keep the
    sum in your checkpoint, and end by it: a run whose batch changes has then
    learnt as much as one of so many steps of the smallest batch.
    """
    here = batch_size() if batch is None else _whole("batch", batch)
    if here < 1:
        raise ValueError(f"batch {here}: use 1 or more")
    smallest = _integer(os.environ, "BELLOWS_BASE_BATCH_SIZE", 0) or batch_size()
    scale = _positive(noise_scale)
    return 1.0 if scale is None else (scale / smallest + 1) / (scale / here + 1)


class GradientNoise:
    """The gradient noise scale in samples, from the norms of gradients of parts of a batch.

    The parts are of one size: ranks, or micro-batches. In each step, or now and then::

        noise.update(small, big, parts)

    ``small`` is the mean over the parts of the squared norm of the part's mean gradient,
    before gradients are reduced; ``big`` the squared norm of the gradient of the whole
    batch. Both estimates (McCandlish et al. 2018, appendix A.1) are averaged over
    about ``steps`` updates before they are divided. `scale` is None until that means something.

    Keep `state_dict` in your checkpoint and give it to `load_state_dict`: else the scale is
    unknown again after each rescale, and steps of a large batch count as those of the smallest.
    """

    def __init__(self, steps: int = 100) -> None:
        if _whole("steps", steps) < 1:
            raise ValueError(f"steps {steps}: use 1 or more")
        self._keep = 1 - 1 / steps
        self._square = self._variance = 0.0
        self._least = min(steps, 10)
        self._updates = 0

    def update(self, small: float, big: float, parts: int, batch: Optional[int] = None) -> None:
        """Take in one step; norms that are not finite, as after an overflow, are left out."""
        if _whole("parts", parts) < 2:
            raise ValueError(f"parts {parts}: noise shows between two parts of a batch or more; take micro-batches where one worker takes all")
        whole = batch_size() if batch is None else _whole("batch", batch)
        if whole < parts:
            raise ValueError(f"parts {parts}: the whole batch is {whole} samples: give no more parts than that")
        small, big = float(small), float(big)
        if not (math.isfinite(small) and math.isfinite(big)):
            return
        part = whole / parts
        self._square = self._keep * self._square + (1 - self._keep) * (whole * big - part * small) / (whole - part)
        self._variance = self._keep * self._variance + (1 - self._keep) * (small - big) / (1 / part - 1 / whole)
        self._updates += 1

    def state_dict(self) -> Dict[str, float]:
        """Return what to keep in a checkpoint."""
        return {"square": self._square, "variance": self._variance, "updates": self._updates}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Go on from what `state_dict` returned."""
        square, variance, updates = float(state["square"]), float(state["variance"]), _whole("updates", state["updates"])
        if not (math.isfinite(square) and math.isfinite(variance) and updates >= 0):
            raise ValueError(f"state {dict(state)!r}: these are no averages: use what state_dict() has returned")
        self._square, self._variance, self._updates = square, variance, updates

    @property
    def scale(self) -> Optional[float]:
        """The noise scale in samples: the trace of the gradients' covariance over the squared norm of their mean."""
        if self._updates < self._least or not (self._square > 0 and self._variance > 0):
            return None
        return _positive(self._variance / self._square)


def _positive(value: Any) -> Optional[float]:
    """Return a number that can be told: finite and above zero."""
    number = _finite(value)
    return number if number is not None and number > 0 else None


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
    (even0, odd0), (even1, odd1), (even2, odd2) = rounds  # written out: a third faster than a loop
    found = []
    for x in range(first, last):
        while True:
            b = x % width
            a = (x // width + even0[b]) % height
            b = (b + odd0[a]) % width
            a = (a + even1[b]) % height
            b = (b + odd1[a]) % width
            a = (a + even2[b]) % height
            b = (b + odd2[a]) % width
            x = a * width + b
            if x < size:
                break
        found.append(x)
    return found


# ---------------------------------------------------------------------------
# Trainers
# ---------------------------------------------------------------------------


def trainer_arguments() -> Dict[str, Any]:
    """Return what Hugging Face's ``TrainingArguments`` have to say: ``TrainingArguments(..., **bellows.trainer_arguments())``.

    A global step is then the same samples for any number of workers, in
    micro-batches that a device can hold.
    """
    return {
        "per_device_train_batch_size": _each_micro_batch(),
        "gradient_accumulation_steps": accumulation_steps(),
        "dataloader_drop_last": True,  # the last steps of a pass would depend on the number of workers
        "save_strategy": "no",
    }


def trainer_train(trainer: Any, save_every: int = 500) -> Any:
    """Have Hugging Face's ``Trainer`` train elastically, in the place of ``trainer.train()``.

    It resumes, stops where Bellows says, saves then and after each ``save_every``
    steps, and begins a stream of random numbers with each step. Give ``max_steps``:
    an epoch's length in steps is the Trainer's. Needs `trainer_arguments`.
    """
    callback = importlib.import_module("transformers").TrainerCallback
    save_every = _whole("save_every", save_every)
    for name, value in trainer_arguments().items():
        have = getattr(trainer.args, name)
        if getattr(have, "value", have) != value:
            raise ValueError(f"{name}={have!r}: use TrainingArguments(..., **bellows.trainer_arguments())")

    class Elastic(callback):  # type: ignore[misc, valid-type]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            seed(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            stop = state.global_step < state.max_steps and should_stop(state.global_step)
            if stop:
                control.should_training_stop = True
            if stop or state.global_step % save_every == 0:
                self.save(state)  # before an evaluation, for which a halt may not wait
            report(state.global_step)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if logs and "loss" in logs:
                report(state.global_step, loss=float(logs["loss"]))

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.save(state)

        def save(self, state: Any) -> None:
            def write(directory: str) -> None:
                if rank() == 0:  # the state is the same on all ranks
                    torch = sys.modules["torch"]
                    trainer.save_model(directory)
                    torch.save(trainer.optimizer.state_dict(), os.path.join(directory, "optimizer.pt"))
                    torch.save(trainer.lr_scheduler.state_dict(), os.path.join(directory, "scheduler.pt"))
                    state.save_to_json(os.path.join(directory, "trainer_state.json"))

            save(state.global_step, write)

    trainer.add_callback(Elastic())
    checkpoint = resume()
    return trainer.train(resume_from_checkpoint=checkpoint.shard(0) if checkpoint else None)


def lightning_arguments() -> Dict[str, Any]:
    """Return what Lightning's Trainer has to be told: ``Trainer(..., **bellows.lightning_arguments())``.

    The loader's batches come from `MicroBatches`; Lightning must neither share
    them out again, nor save by itself.

    Lightning numbers ranks as if each node had as many workers; a world in
    which that is not so is refused, before anything is trained.
    """
    _each_micro_batch()  # Lightning divides by the number of micro-batches
    local = _integer(os.environ, "LOCAL_WORLD_SIZE", world_size(), least=1)
    node = _integer(os.environ, "GROUP_RANK", 0)
    if world_size() % local or rank() != node * local + local_rank():
        raise ValueError(
            f"LOCAL_WORLD_SIZE={local}, GROUP_RANK={node}, LOCAL_RANK={local_rank()}: rank {rank()} of {world_size()} is on a node "
            "with another number of workers than the others, which Lightning's Trainer cannot number: "
            "use sizes that fill nodes evenly, or an own loop as in examples/ddp_loader.py"
        )
    return {
        "devices": local,
        "num_nodes": world_size() // local,
        "strategy": "ddp" if world_size() > 1 else "auto",
        "accumulate_grad_batches": accumulation_steps(),
        "use_distributed_sampler": False,
        "enable_checkpointing": False,
        "max_epochs": -1,  # the steps are counted
        "min_epochs": 0,
    }


_LIGHTNING_FILE = "lightning.ckpt"


def lightning_callback(save_every: int = 500) -> Any:
    """Return a callback for Lightning's Trainer that stops where Bellows says, and saves and reports.

    It begins a stream of random numbers with each step. With it::

        checkpoint = bellows.resume()
        start = checkpoint.step if checkpoint else 0
        loader = DataLoader(data, batch_sampler=bellows.MicroBatches(start, STEPS, len(data)))
        trainer = Trainer(max_steps=STEPS, callbacks=[bellows.lightning_callback()], **bellows.lightning_arguments())
        trainer.fit(model, loader, ckpt_path=checkpoint and checkpoint.shard(0) + "/lightning.ckpt")

    For strategies that keep the whole state on every rank, such as DDP.
    """
    try:
        base = importlib.import_module("lightning.pytorch").Callback
    except ImportError:
        base = importlib.import_module("pytorch_lightning").Callback
    save_every = _whole("save_every", save_every)

    class Elastic(base):  # type: ignore[misc, valid-type]
        stopping = False  # Bellows has said so

        def on_train_start(self, trainer: Any, module: Any) -> None:
            if trainer.global_step and trainer.global_step != _run.start_step:
                raise ValueError(
                    f"trainer.fit begins at step {trainer.global_step}, the checkpoint's is {_run.start_step}: "
                    'pass ckpt_path=checkpoint.shard(0) + "/lightning.ckpt"'
                )
            self.ask(trainer)

        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
            if number % trainer.accumulate_grad_batches == 0:
                seed(trainer.global_step)

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, number: int) -> None:
            if (number + 1) % trainer.accumulate_grad_batches:
                return
            step = trainer.global_step
            report(step, loss=outputs["loss"] if isinstance(outputs, Mapping) and "loss" in outputs else None)
            self.ask(trainer)
            if step % save_every == 0 and not trainer.should_stop:
                self.save(trainer)

        def on_validation_start(self, trainer: Any, module: Any) -> None:
            if self.stopping:
                self.save(trainer)  # Lightning evaluates when it stops, for which a halt may not wait

        def on_train_end(self, trainer: Any, module: Any) -> None:
            self.save(trainer)

        def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: Dict[str, Any]) -> None:
            # The loader begins at the step: nothing of its batches is to be skipped, or counted as done.
            loop = checkpoint.get("loops", {}).get("fit_loop", {})
            for progress in (loop.get("epoch_loop.batch_progress"), loop.get("epoch_progress")):
                for part in ("total", "current"):
                    for name in (progress or {}).get(part, {}):
                        progress[part][name] = 0
                if progress and "is_last_batch" in progress:
                    progress["is_last_batch"] = False

        def ask(self, trainer: Any) -> None:
            if trainer.global_step != trainer.max_steps and should_stop(trainer.global_step):
                trainer.should_stop = self.stopping = True

        def save(self, trainer: Any) -> None:
            save(trainer.global_step, lambda directory: trainer.save_checkpoint(os.path.join(directory, _LIGHTNING_FILE)))

    return Elastic()


def accelerate_arguments() -> Dict[str, Any]:
    """Return what accelerate has to be told: ``Accelerator(**bellows.accelerate_arguments())``.

    Its scheduler then is stepped once a step and not once a process, and where torch sees
    no accelerator its processes train together on processors: each would train alone. Take batches
    from `MicroBatches`, and do not pass that loader to ``prepare``, which would
    share them out again.
    """
    _each_micro_batch()  # accelerate divides by the number of micro-batches
    torch = importlib.import_module("torch")
    devices = getattr(torch, "accelerator", torch.cuda)  # of any kind; torch before 2.6 knows of CUDA only
    processors = {} if devices.is_available() else {"cpu": True}
    return {"step_scheduler_with_optimizer": False, "gradient_accumulation_steps": accumulation_steps(), **processors}


_TORCH_FILE = "state.pt"


def torch_save(step: int, **objects: Any) -> None:
    """Save the state of torch's objects that are the same on all ranks, such as a model, its optimizer and a scheduler; for `save`.

    Each has a ``state_dict``, and is given by a name of its own:
    ``bellows.torch_save(step, model=model, optimizer=optimizer)``. Rank 0 writes them into
    one file. A model may be wrapped by DistributedDataParallel or torch.compile. For sharded
    ones see `sharded_save`.
    """
    state = {name: _unwrapped(each).state_dict() for name, each in _stateful("torch_save", objects).items()}
    for name, parts in state.items():
        for key, value in parts.items():
            if hasattr(value, "to_local"):
                raise ValueError(f"torch_save: {name}'s {key} is sharded over ranks: use bellows.sharded_save")

    def write(directory: str) -> None:
        if rank() == 0:
            importlib.import_module("torch").save(state, os.path.join(directory, _TORCH_FILE))

    save(step, write)


def torch_load(**objects: Any) -> int:
    """Load into torch's objects what `torch_save` has saved, and return the step to begin at.

    The same names have to be given. Without a checkpoint it changes nothing and
    returns 0. A checkpoint of another model is refused. The file is read as torch reads
    pickles: resume from checkpoints that you trust only.
    """
    _stateful("torch_load", objects)
    found = resume()
    if found is None:
        return 0
    path = os.path.join(found.shard(0), _TORCH_FILE)
    if not os.path.exists(path):
        raise ValueError(f"{found.path}: no {_TORCH_FILE} of rank 0 there: this checkpoint was not saved by bellows.torch_save: load it as it was saved")
    state = importlib.import_module("torch").load(path, map_location="cpu", weights_only=False)
    for name in sorted(set(state) ^ set(objects)):
        raise ValueError(f"{path}: {name} is only in {'the checkpoint' if name in state else 'the call'}: give torch_load the names that torch_save was given")
    for name, each in objects.items():
        try:
            _unwrapped(each).load_state_dict(state[name])
        except (KeyError, RuntimeError, ValueError) as err:
            raise _another_model(path, "torch_save", err) from err
    return found.step


def _stateful(call: str, objects: Mapping[str, Any]) -> Mapping[str, Any]:
    if not objects:
        raise ValueError(f"{call}: nothing to save or load: name the model, the optimizer and whatever else training changes, as in model=model")
    for name, each in objects.items():
        if not callable(getattr(each, "state_dict", None)) or not callable(getattr(each, "load_state_dict", None)):
            raise TypeError(f"{call}: {name} is of {type(each).__name__}, which has no state_dict and load_state_dict: save what it holds with bellows.save")
    return objects


def _unwrapped(each: Any) -> Any:
    """Return the model within DistributedDataParallel and torch.compile, whose names are the same in all worlds."""
    while True:
        inner = getattr(each, "_orig_mod", None) if type(each).__name__ == "OptimizedModule" else None
        if type(each).__name__ == "DistributedDataParallel":
            inner = each.module
        if inner is None:
            return each
        each = inner


_DCP_DIRECTORY = "sharded"


def sharded_save(step: int, model: Any, optimizer: Any, **others: Any) -> None:
    """Save a model and its optimizer, sharded over ranks as FSDP2's are, in torch's distributed format; for `save`.

    Each rank writes what it holds, and any number of ranks can read it: see
    `sharded_load`. ``others`` are objects that are the same on all ranks and have
    a ``state_dict``, such as a scheduler. Call it on every rank, at the same step.
    """

    def write(directory: str) -> None:
        checkpoint = importlib.import_module("torch.distributed.checkpoint")
        # The module makes files durable by itself.
        writer = checkpoint.FileSystemWriter(os.path.join(directory, _DCP_DIRECTORY), sync_files=False)
        checkpoint.save(_sharded_state(model, optimizer, others), storage_writer=writer)

    save(step, write)


def sharded_load(model: Any, optimizer: Any, **others: Any) -> int:
    """Load into a model, its optimizer and others what `sharded_save` has saved, and return the step to begin at.

    The same names have to be given. Without a checkpoint it changes nothing and
    returns 0. A checkpoint of another model is refused.
    """
    found = resume()
    if found is None:
        return 0
    checkpoint = importlib.import_module("torch.distributed.checkpoint")
    dicts = importlib.import_module("torch.distributed.checkpoint.state_dict")
    state = _sharded_state(model, optimizer, others)
    with tempfile.TemporaryDirectory(prefix="bellows-sharded-") as together:
        for part in found.shards():  # DCP reads one directory; its files have names of their own for each rank
            if not os.path.isdir(os.path.join(part, _DCP_DIRECTORY)):
                raise ValueError(f"{part}: no {_DCP_DIRECTORY} there: this checkpoint was not saved by bellows.sharded_save: load it as it was saved")
            for name in os.listdir(os.path.join(part, _DCP_DIRECTORY)):
                os.symlink(os.path.join(part, _DCP_DIRECTORY, name), os.path.join(together, name))
        try:
            checkpoint.load(state, storage_reader=checkpoint.FileSystemReader(together))
        except (checkpoint.CheckpointException, KeyError, RuntimeError, ValueError) as err:
            raise _another_model(found.path, "sharded_save", err) from err
    dicts.set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for name, other in others.items():
        other.load_state_dict(state[name])
    return found.step


def deepspeed_arguments() -> Dict[str, Any]:
    """Return what DeepSpeed's configuration has to say: ``config={..., **bellows.deepspeed_arguments()}``.

    A global step is then the same samples for any number of workers, in micro-batches that
    a device can hold. Take batches from `MicroBatches`.
    """
    return {
        "train_batch_size": batch_size(),
        "train_micro_batch_size_per_gpu": _each_micro_batch(),
        "gradient_accumulation_steps": accumulation_steps(),
    }


_ZERO_FILE = "zero.pt"


def deepspeed_save(step: int, engine: Any) -> None:
    """Save the state of an engine of DeepSpeed's with ZeRO stage 1 or 2, in a form that any number of ranks can load; for `save`.

    Each rank writes its part of the parameters and of the optimizer's state, rank 0 the model
    and the scheduler as well. Call it on every rank, at the same step. Other stages, float16,
    offloading and round-robin gradients are refused.
    """
    optimizer, flat = _zero("deepspeed_save", engine).optimizer, []
    for group in optimizer.param_groups:
        (own,) = group["params"]
        flat.append({"parameters": own.detach(), **optimizer.state.get(own, {})})
    state: Dict[str, Any] = {"flat": flat}
    if rank() == 0:
        groups = [{name: each for name, each in group.items() if name != "params"} for group in optimizer.param_groups]
        state.update(groups=groups, model=engine.module.state_dict(), scheduler=engine.lr_scheduler and engine.lr_scheduler.state_dict())
    save(step, lambda directory: importlib.import_module("torch").save(state, os.path.join(directory, _ZERO_FILE)))


def deepspeed_load(engine: Any) -> int:
    """Load into an engine of DeepSpeed's what `deepspeed_save` has saved, on any number of ranks, and return the step to begin at.

    Without a checkpoint it changes nothing and returns 0. A checkpoint of another
    model is refused. The file is read as torch reads pickles: resume from checkpoints that you trust only.
    """
    zero = _zero("deepspeed_load", engine)
    found = resume()
    if found is None:
        return 0
    torch, paths = importlib.import_module("torch"), [os.path.join(part, _ZERO_FILE) for part in found.shards()]
    for path in paths:
        if not os.path.exists(path):
            raise ValueError(f"{path}: no such file: this checkpoint was not saved by bellows.deepspeed_save: load it as it was saved")
    mapped = {"mmap": True} if "mmap" in torch.load.__code__.co_varnames else {}  # torch before 2.1 reads all of it into memory
    parts = [torch.load(path, map_location="cpu", weights_only=False, **mapped) for path in paths]
    try:
        engine.module.load_state_dict(parts[0]["model"])
        moments: Dict[int, Any] = {}
        for number, group in enumerate(zero.optimizer.param_groups):
            own, here, kept = group["params"][0], _zero_part(zero, number), parts[0]["flat"][number]
            for name in [name for name, first in kept.items() if getattr(first, "ndim", 0)]:
                whole, kept[name] = torch.cat([kept[name]] + [part["flat"][number][name] for part in parts[1:]]), torch.zeros_like(own)
                kept[name][: len(here)] = whole[here.start : here.stop]
            own.data.copy_(kept.pop("parameters"))
            moments[number] = kept
        groups = [{**group, "params": [number]} for number, group in enumerate(parts[0]["groups"])]
        zero.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        if engine.lr_scheduler:
            engine.lr_scheduler.load_state_dict(parts[0]["scheduler"])
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as err:
        raise _another_model(found.path, "deepspeed_save", err) from err
    engine.global_steps = found.step
    return found.step


def _zero(call: str, engine: Any) -> Any:
    """Return an engine's ZeRO optimizer, if its parts can be put together for another number of ranks."""
    zero = engine.optimizer
    if type(zero).__name__ != "DeepSpeedZeroOptimizer":
        raise ValueError(f"{call}: DeepSpeed's optimizer is {type(zero).__name__}: use ZeRO stage 1 or 2; in the place of stage 3 use FSDP2, with bellows.sharded_save")
    for name, has in (
        ("float16", zero.dtype == importlib.import_module("torch").float16),
        ("round_robin_gradients", zero.round_robin_gradients),
        ("offload_optimizer", zero.cpu_offload),
        ("parallelism of another kind than data's", zero.has_moe_layers or any(count != world_size() for count in zero.partition_count)),
    ):
        if has:
            raise ValueError(f"{call}: DeepSpeed's engine uses {name}, which cannot be saved for another number of workers: leave it out, or run a fixed number of workers")
    return zero


def _zero_part(zero: Any, number: int) -> range:
    """Return which values of a group of parameters, one after the other, this rank has; what is behind them fills its part up."""
    size, whole = zero.optimizer.param_groups[number]["params"][0].numel(), sum(p.numel() for p in zero.bit16_groups[number])
    return range(min(rank() * size, whole), min((rank() + 1) * size, whole))


def _another_model(path: str, saved_by: str, err: BaseException) -> ValueError:
    said = str(err).strip().split("\n")[-1].strip().rstrip(".")
    return ValueError(f"{path} cannot be loaded into this model: {said}: is it a checkpoint of another model, or of other names than {saved_by} was given?")


def _sharded_state(model: Any, optimizer: Any, others: Mapping[str, Any]) -> Dict[str, Any]:
    for name in ("model", "optimizer"):
        if name in others:
            raise ValueError(f"{name}=…: the name is taken: use another")
    parameters, moments = importlib.import_module("torch.distributed.checkpoint.state_dict").get_state_dict(model, optimizer)
    return {"model": parameters, "optimizer": moments, **{name: other.state_dict() for name, other in others.items()}}


def jax_initialize() -> None:
    """Have JAX's processes meet where Bellows says: ``jax.distributed.initialize`` with its numbers.

    A worker for each device takes its own of those that are visible; with
    ``--process per-node`` it takes all of its node's. One process alone needs nothing.
    """
    if world_size() == 1:
        return
    each = os.environ.get("CUDA_VISIBLE_DEVICES") and os.environ.get("LOCAL_WORLD_SIZE") != "1"
    host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    importlib.import_module("jax").distributed.initialize(
        coordinator_address=("[%s]:%s" if ":" in host else "%s:%s") % (host, port),
        num_processes=world_size(),
        process_id=rank(),
        local_device_ids=[local_rank()] if each else None,
    )


_JAX_FILE = "state.npz"


def jax_save(step: int, state: Any) -> None:
    """Save a tree of JAX's or numpy's arrays; for `save`. Call it on every rank, at the same step.

    Rank 0 writes them whole. Arrays that are sharded over processes are gathered for that, one after
    the other: rank 0 needs memory for all of them, the others for the largest.
    """

    def write(directory: str) -> None:
        whole = {}
        for name, leaf in _jax_leaves(state).items():
            array = _jax_whole(leaf)  # on all ranks, in the same order: it may speak with the others
            if rank() == 0:
                whole[name] = array
        if rank() == 0:
            importlib.import_module("numpy").savez(os.path.join(directory, _JAX_FILE), **whole)

    save(step, write)


def _jax_whole(leaf: Any) -> Any:
    """Return an array with all of its parts."""
    if getattr(leaf, "is_fully_replicated", False):
        return leaf.addressable_data(0)
    if getattr(leaf, "is_fully_addressable", True):
        return leaf
    return importlib.import_module("jax.experimental.multihost_utils").process_allgather(leaf, tiled=True)


def jax_load(state: Any) -> Tuple[Any, int]:
    """Return what `jax_save` has saved, in the shape of ``state``, as whole arrays of numpy's, and the step to begin at.

    Without a checkpoint it returns ``state`` and 0. A checkpoint of another
    model, with other names or shapes, is refused.
    """
    found = resume()
    if found is None:
        return state, 0
    numpy = importlib.import_module("numpy")
    path = os.path.join(found.shard(0), _JAX_FILE)
    named, leaves = _jax_leaves(state), []
    with numpy.load(path) as kept:
        have = {name: kept[name] for name in kept.files}
    for name in sorted(set(have) ^ set(named)):
        raise ValueError(f"{path}: {name} is only in {'the checkpoint' if name in have else 'the model'}: is it a checkpoint of another model?")
    for name, leaf in named.items():
        array, kind = have[name], numpy.asarray(leaf).dtype if not hasattr(leaf, "dtype") else leaf.dtype
        array = array.view(kind) if array.dtype.kind == "V" else array  # bfloat16, which numpy does not know
        if array.shape != numpy.shape(leaf) or array.dtype != kind:
            raise ValueError(
                f"{path}: {name} is {array.dtype}{list(array.shape)} there and {kind}{list(numpy.shape(leaf))} in the model: is it a checkpoint of another model?"
            )
        leaves.append(array)
    tree = importlib.import_module("jax").tree_util
    return tree.tree_unflatten(tree.tree_structure(state), leaves), found.step


def _jax_leaves(state: Any) -> Dict[str, Any]:
    """Return the arrays of a tree by their places in it, in the order of JAX."""
    tree = importlib.import_module("jax").tree_util
    found, _ = tree.tree_flatten_with_path(state)
    return {tree.keystr(path): leaf for path, leaf in found}


def _each_micro_batch() -> int:
    """Return how many samples a micro-batch of any rank has, for trainers that know of one number only."""
    each, left = divmod(batch_size(), world_size() * accumulation_steps())
    if left:
        raise ValueError(
            f"a batch of {batch_size()} samples is not shared evenly by {world_size()} workers in {accumulation_steps()} micro-batches each, "
            "as a trainer shares it: set --batch-size and --micro-batch so that it is"
        )
    return each


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

    def progress(self, what: _Report, age: float = 0.0) -> None:
        """Say how far this rank is; ``age`` is how many seconds ago it got there."""
        told: Dict[str, Any] = {"step": what.step, "samples": what.samples, "loss": _finite(what.loss)}
        if what.loss is not None and told["loss"] is None:
            told["loss_is_no_number"] = True
        for name, value in (("noise_scale", _positive(what.noise_scale)), ("base_steps", _positive(what.base_steps))):
            if value is not None:
                told[name] = value
        if age > 0:
            told["age"] = age
        self._send({"progress": told})

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
_DATA_FILE = "data.json"  # in rank 0's part of a checkpoint: what its samples were taken of
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
        self._resumed_from = self._resume_from
        self._lr: Optional[_LRChange] = None
        self._sizes: Set[int] = set()  # of the data sets that samples were taken of
        self._sizes_before: Optional[Set[int]] = None  # those that the checkpoint knows of; None: not read yet
        self._kept = self.start_step if self._resume_from and self._resume_known else -1  # needs no saving again
        self._written = -1  # the newest step whose directory this process has put in place
        self._unsent: Optional[Tuple[_Report, float]] = None  # and when
        self._report_due = 0.0
        self._finished = False  # a step that this process has finished was reported
        self.reported = -1  # the newest step that the script has reported
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
        self._lr = self._sizes_before = None
        self._resumed_from = found.path if found is not None else ""
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
            raise self._too_early(step)
        return -1 if self.start_samples < 0 else self.start_samples + (step - self.start_step) * self.batch

    def _too_early(self, step: int) -> ValueError:
        return ValueError(f"step {step}: this run resumed at step {self.start_step}; start your loop at resume().step")

    # -- data --------------------------------------------------------------

    def check_data(self, step: int, size: int) -> None:
        """Refuse a data set at the first step after a resume if the checkpoint was trained on others only."""
        size, step = _whole("dataset_size", size), _whole("step", step)
        if size in self._sizes:
            return
        if self._sizes_before is None:
            self._sizes_before = _saved_sizes(self._resumed_from)
        if step == self.start_step and self._sizes_before and size not in self._sizes_before:
            raise ValueError(
                f"dataset_size {size}: the checkpoint of step {self.start_step} was trained on {' and '.join(map(str, sorted(self._sizes_before)))} samples: "
                "the samples of a step would be others: give the data set that it was trained on, or call bellows.resume(data_changed=True) if it is meant to be another"
            )
        self._sizes.add(size)

    def forget_data(self) -> None:
        self._sizes_before = set()

    def _write_sizes(self, directory: str) -> None:
        if rank() == 0 and self._sizes:
            with open(os.path.join(directory, _DATA_FILE), "w", encoding="utf-8") as f:
                json.dump({"dataset_sizes": sorted(self._sizes)}, f)

    # -- learning rate -----------------------------------------------------

    def lr_change(self) -> _LRChange:
        if self._lr is None:
            rule = _LR_RULES[_lr_rule()]
            after = rule(self.batch / (_integer(os.environ, "BELLOWS_BASE_BATCH_SIZE", 0) or self.batch))
            before, since = after if self.start_step == 0 else 1.0, self.start_step
            warmup = _integer(os.environ, "BELLOWS_LR_WARMUP", 0)
            saved = _saved_lr(self._resumed_from)
            if saved is not None and saved.batch == self.batch:  # whatever was under way goes on
                before, since = saved.before, saved.since
            elif saved is not None:
                before = saved.scale(self.start_step - 1)
            self._lr = _LRChange(self.batch, before, after, since, warmup)
        return self._lr

    def _write_lr(self, directory: str) -> None:
        if rank() == 0 and _lr_rule() != "none":
            with open(os.path.join(directory, _LR_FILE), "w", encoding="utf-8") as f:
                json.dump(self.lr_change()._asdict(), f)

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
            self._write_lr(fresh)
            self._write_sizes(fresh)
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
        if step < self.start_step:
            raise self._too_early(step)
        if self.link is not None:
            return self.link.should_stop(step)
        if self._sigterm is None:
            self._sigterm = _Sigterm()
        return self._sigterm.caught

    def report(self, what: _Report) -> None:
        step, loss = what.step, what.loss
        self.reported = step
        if self.link is None:
            return
        if what.samples is None:
            what = what._replace(samples=self.consumed(step))
        with self._reporting:
            now = time.monotonic()
            # Speed is measured from the first finished step: that one is passed on at once.
            first = not self._finished and step > self.start_step
            if now < self._report_due and not first:
                # Kept for the end; a tensor without its graph.
                self._unsent = (what._replace(loss=loss.detach() if hasattr(loss, "detach") else loss), now)
                return
            self._finished = self._finished or first
            self._report_due = now + REPORT_INTERVAL_S
            self._unsent = None
        self.link.progress(what)

    def flush(self) -> None:
        """Pass on the report that came too soon after the one before, when the script ends."""
        with self._reporting:
            unsent, self._unsent = self._unsent, None
        if unsent is not None and self.link is not None:
            what, when = unsent
            try:
                what = what._replace(loss=None if what.loss is None else float(what.loss))
            except Exception:  # such as of a device that has failed: the script is ending, for a reason of its own
                what = what._replace(loss=None)
            self.link.progress(what, time.monotonic() - when)


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


def _saved_lr(path: str) -> Optional[_LRChange]:
    """Read how the learning rate changed when the checkpoint in a directory was saved."""
    if not path:
        return None
    try:
        with open(os.path.join(path, _rank_dir(0), _LR_FILE), encoding="utf-8") as f:
            return _LRChange(**json.load(f))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as err:
        raise ValueError(f"{path}: {_LR_FILE} of rank 0: {err}: resume from another checkpoint") from None


def _saved_sizes(path: str) -> Set[int]:
    """Read the lengths of the data sets that the checkpoint in a directory was trained on; empty where it does not say."""
    if not path:
        return set()
    try:
        with open(os.path.join(path, _rank_dir(0), _DATA_FILE), encoding="utf-8") as f:
            return {int(size) for size in json.load(f)["dataset_sizes"]}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, TypeError, KeyError) as err:
        raise ValueError(f"{path}: {_DATA_FILE} of rank 0: {err!r}: resume from another checkpoint") from None


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


def _torchrun(arguments: List[str]) -> int:
    """Be torchrun on this node, for ``--process per-node``: ``python3 -m bellows train.py``.

    It gives torchrun the numbers that Bellows gives this process, and ends without
    torchrun's traceback when it is told to by SIGTERM, after its workers have ended.
    """
    environ = os.environ
    numbers = [  # with underscores, for torch before 2.0
        *("--nnodes", environ.get("WORLD_SIZE") or "1", "--node_rank", environ.get("RANK") or "0"),
        *("--master_addr", environ.get("MASTER_ADDR") or "127.0.0.1", "--master_port", environ.get("MASTER_PORT") or "29500"),
        *("--nproc_per_node", environ.get("BELLOWS_LOCAL_DEVICES") or "1"),
    ]
    run = importlib.import_module("torch.distributed.run")
    told = importlib.import_module("torch.distributed.elastic.multiprocessing.api").SignalException
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"):
        environ.pop(name, None)  # torchrun's workers have their own
    try:
        run.main(numbers + arguments)
    except told as err:
        _warn(f"torchrun and its workers have ended of {signal.Signals(err.sigval).name}")
        return 128 + int(err.sigval)
    return 0


_run: _Run  # which _begin makes


def _begin() -> None:
    """Take the environment in, and meet Bellows; not before the plan is known."""
    global _run
    _run = _Run(os.environ)
    if managed() and __name__ != "__main__":
        # At import, so that from the first step of any rank on, all ranks are
        # connected: scripts import this before they form their process group.
        _run.connect(os.environ["BELLOWS_WORKER_SOCKET"])


_ahead: Any = globals().pop("_ahead", None)  # there in a process that runs ahead of its generation
if _ahead is not None and _ahead.running:
    _ahead.after.append(_begin)
else:
    _begin()
del _ahead
atexit.register(lambda: _run.flush())
os.register_at_fork(after_in_child=lambda: _run.after_fork())
if __name__ == "__main__":
    sys.exit(_torchrun(sys.argv[1:]))
if managed() and os.environ.get("BELLOWS_VERIFY"):  # by `bellows verify` only, which puts that module beside this one
    importlib.import_module("bellows_verify")
