"""What `bellows verify` observes of a training process; nothing else ever imports it.

`bellows` imports this at its end where $BELLOWS_VERIFY names a directory, which
only `bellows verify` sets. It wraps the module's functions and, where torch is
installed, its optimisers, schedulers, loaders and dropout, and changes nothing
that they compute. When the process ends, what was seen of each step is in
``rank-<r>.json`` in that directory, and the values of parameters and optimiser
state in ``rank-<r>.bin``, those that the world began with in ``rank-<r>.began.bin``.
"""

import atexit
import collections
import collections.abc
import functools
import gc
import hashlib
import importlib
import importlib.util
import inspect
import json
import math
import os
import signal
import sys
import threading
import time
import types
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Set, Tuple

import bellows

# Of larger tensors every so-manieth value is written; the digests are of all.
MAX_VALUES = 1 << 16
# A step takes fewer batches of a loader before it trains on the first.
MAX_AHEAD = 1 << 12
# A rank's step of more inputs is not looked at: they are hardly samples.
MAX_INPUTS = 1 << 14
# Of what the script holds, so many objects are looked at, in so many levels below a variable.
MAX_HELD = 20_000
MAX_DEPTH = 4


# A tensor under a name that does not depend on the world, and which part of it this rank has; None: all of it.
State = Tuple[str, Any, Optional[Tuple[int, int]]]


class Batch:
    """A loader's batch: its samples, and how its data is known again."""

    def __init__(self, sampler: int, samples: List[int]) -> None:
        self.sampler, self.samples = sampler, samples  # of its loader
        self.storages: List[Any] = []  # weak references, without which another batch's could have the same address
        self.trained = False


class Recorder:
    """What this rank has seen, by step."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.pid = os.getpid()
        self.stop_after = int(os.environ.get("BELLOWS_VERIFY_STOP_AFTER") or -1)  # the last step of this world
        self.steps: Dict[int, Dict[str, Any]] = {}
        self.begun: Optional[int] = None  # the newest step that should_stop has let begin
        self.last: Optional[int] = None  # the newest step of the first optimiser
        self.optimizers: List[Any] = []
        self.norms: List[Any] = []  # layers of batch statistics
        self.scalers: List[Any] = []  # that multiply losses, for float16
        self.averages: List[Any] = []  # of weights
        self.engine: Any = None  # DeepSpeed's, whose optimizer has a part of all parameters, one after the other
        self.optimizer_steps = 0
        self.taken: Dict[int, Deque[Batch]] = {}  # of each loader, not yet trained on, by its sampler
        self.known: Dict[int, Optional[Batch]] = {}  # batches by their data's storages; None: of several
        self.passed: List[Batch] = []  # that went into a module since the newest backward pass, or in it
        self.samplers: List[Any] = []  # which keeps those numbers theirs
        self.given = self.training = 0  # the sampler of the newest batch, and of the newest before a backward pass
        self.stream = False  # a loader's samples have no indices
        self.plain = True  # the script does not use the module
        self.kept: List[Any] = []  # trees of arrays that the newest checkpoint was made of, for JAX
        self.again = False  # an optimizer evaluates its closure for the second time or later in one step
        self.begun_batches = 0  # backward passes that have begun
        self.over = -1  # how many had when the loop last seemed to be over
        self.progress: Optional[int] = None  # the file that says both, also of a process that is killed
        self.first_s: Optional[float] = None  # when the first step was over, in seconds since 1970
        self.last_s: Optional[float] = None  # when the last one was
        self.scheduler: Any = None  # the one that was stepped last
        self.began: List[Dict[str, Any]] = []  # the state that the world begins with
        self.held_began: Dict[str, Tuple[str, bool]] = {}  # what the script holds when it begins: digests, and whether it is a parameter's value
        self.held: Dict[str, Tuple[str, bool]] = {}  # what it holds when it ends
        self.copies: Set[str] = set()  # of that, what had the value of a parameter before the last step
        self.depth = 0  # of calls of modules in each other
        self.call: List[str] = []  # inputs of the newest call of a module that trains, since the newest backward pass
        self.ended: Optional[List[Dict[str, Any]]] = None  # the state at the end
        self.new_step()

    def new_step(self) -> None:
        self.losses: List[Any] = []
        self.scheduled = 0
        self.dropout: Optional[str] = None
        self.trained: List[Batch] = []  # that a backward pass has followed
        self.clipped = 0  # how often gradients were clipped
        self.normalised: Optional[int] = None  # samples that the first layer of batch statistics saw at once
        self.passes = 0  # over the data, that have ended
        self.precision: Optional[str] = None
        self.unscaled = 0  # losses that are again what they were before a scaler multiplied them
        self.inputs: List[str] = []  # digests of what the trained module was given

    def here(self) -> bool:
        """Tell whether this is the training process and not one that it has forked."""
        return os.getpid() == self.pid

    def at(self, step: int) -> Dict[str, Any]:
        return self.steps.setdefault(step, {})

    def step_over(self) -> None:
        """Note that a step is over; the first, which compiles what is compiled, belongs to the start of the world."""
        self.last_s = time.time()
        if self.first_s is None:
            self.first_s = self.last_s

    # -- the module ----------------------------------------------------------

    def indices(self, step: int, found: List[int]) -> None:
        self.at(step)["samples"] = [int(i) for i in found]

    def should_stop(self, step: int, stop: bool) -> None:
        if self.begun is not None:
            self.step_over()
        if stop:
            self.loop_over()
            self.hold()
        else:
            self.begun = step

    def report(self, step: int, loss: Any) -> None:
        self.step_over()
        if loss is not None:
            self.at(step - 1)["reported"] = finite(float(loss))

    # -- torch ---------------------------------------------------------------

    def backward(self, loss: Any) -> None:
        if self.again:
            return  # of the same batches
        self.losses.append(loss.detach().double().sum() if loss is not None else None)
        self.training = self.given
        self.train_on(self.passed)
        self.passed = []
        self.take_inputs()
        self.begun_batches += 1
        self.tell()

    def backward_over(self) -> None:
        """Note the batches that only a backward pass has put into a module, as checkpointed layers do."""
        self.train_on([b for b in self.passed if not b.trained])
        self.passed = []
        if not self.inputs:
            self.take_inputs()
        self.call = []

    def take_inputs(self) -> None:
        """Note that a backward pass is of the newest call; an evaluation's may have come before."""
        if len(self.inputs) <= MAX_INPUTS:
            self.inputs += self.call
        self.call = []

    def train_on(self, batches: List[Batch]) -> None:
        """Note that a backward pass is of these batches; an evaluation's, of another loader, may have come before."""
        if batches:
            self.training = batches[-1].sampler
        for batch in batches:
            if batch.sampler == self.training and not any(b is batch for b in self.trained):
                batch.trained = True
                self.trained.append(batch)

    def take(self, sampler: Any, samples: List[int], data: Any) -> None:
        """Note a batch of a loader's. An evaluation's may come between those of steps; no backward pass follows it."""
        self.given = id(sampler)
        if self.given not in self.taken:
            self.samplers.append(sampler)
            self.taken[self.given] = collections.deque(maxlen=MAX_AHEAD)
        batch = Batch(self.given, samples)
        for tensor in tensors_of(data):
            weak = storage_of(tensor)
            if weak is not None:
                batch.storages.append(weak)
                other = self.known.setdefault(weak.cdata, batch)
                if other is not batch:
                    self.known[weak.cdata] = None
        self.taken[self.given].append(batch)
        self.forget_gone()

    def forget_gone(self) -> None:
        """Forget the data of batches that the script has let go of, so that this takes no more memory with each batch."""
        for queue in self.taken.values():
            for batch in [b for b in queue if b.storages]:
                left = [weak for weak in batch.storages if not weak.expired()]
                for weak in batch.storages:
                    if weak.expired():
                        self.known.pop(weak.cdata, None)
                batch.storages = left

    def forward(self, data: Any) -> None:
        """Note which batches go into a module: only such a batch is trained on, whatever else was read from the loader."""
        if self.again or not self.known:
            return
        for tensor in tensors_of(data):
            weak = storage_of(tensor)
            batch = self.known.get(weak.cdata) if weak is not None else None
            if batch is not None and not any(b is batch for b in self.passed):
                self.passed.append(batch)

    def samples(self) -> Optional[List[int]]:
        """Return the samples of the step that ends: of the batches that went through the model, or else of those that are next."""
        taken = self.taken.get(self.training) or collections.deque()
        if self.trained:
            newest = self.trained[-1]
            while any(b is newest for b in taken):
                taken.popleft()  # with those that the script went past, as `if n < step: continue`
            return [i for batch in self.trained for i in batch.samples]
        if len(taken) >= len(self.losses) > 0:
            return [i for _ in self.losses for i in taken.popleft().samples]
        return None

    def loop_over(self) -> None:
        """Note that the loop over batches seems to end here: `bellows verify` compares that of all ranks where one fails."""
        self.over = self.begun_batches
        self.tell()

    def pass_over(self) -> None:
        """Note that a loader has no more batches."""
        self.passes += 1
        self.loop_over()

    def tell(self) -> None:
        if self.progress is None:
            self.progress = os.open(os.path.join(self.directory, f"rank-{bellows.rank():05d}.batches"), os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(self.progress, b"%11d %11d\n" % (self.begun_batches, self.over), 0)

    def stepped(self, optimizer: Any, skipped: bool = False) -> None:
        """Note a step, also one that the scaler skips because gradients are too large for it."""
        self.optimizer_steps += 1
        if not any(o is optimizer for o in self.optimizers):
            self.optimizers.append(optimizer)
        if optimizer is not self.optimizers[0]:
            return
        square, sharded = squared_norm(optimizer)
        sharded = sharded or self.zero_part(optimizer, 0) is not None
        if square == 0 and not self.losses:
            return  # no training: so torch.distributed.checkpoint has an optimizer make its state
        if self.last is None:
            self.begin_with(self.state_of(0))
            self.held_began = self.look()
        self.step_over()
        before = bellows._run.start_step - 1 if self.last is None else self.last
        step = self.begun if self.begun is not None and self.begun > before else before + 1
        self.last = step
        seen = self.at(step)
        seen["lr"] = [float(g["lr"]) for g in optimizer.param_groups]
        seen["square"], seen["sharded"] = None if skipped else finite(square), sharded
        if self.losses and None not in self.losses:
            seen["loss"] = finite(sum(float(x) for x in self.losses))
        seen["backwards"], seen["dropout"] = len(self.losses), self.dropout
        seen["scheduled"] = self.scheduled
        if self.scheduler is not None:
            seen["place"] = int(self.scheduler.last_epoch)
        seen["clipped"], seen["normalised"], seen["passes"] = self.clipped, self.normalised, self.passes
        seen["pass"] = next((length_of(s) for s in self.samplers if id(s) == self.training), 0)
        seen["precision"] = self.precision or precision_of(optimizer)
        if 0 < len(self.inputs) <= MAX_INPUTS:
            seen["inputs"] = self.inputs
        if step == self.stop_after:
            self.copies = {place for place, (_, copy) in self.look().items() if copy}
        trained_on = self.samples()
        if "samples" not in seen and trained_on is not None:
            seen["samples"] = trained_on
        self.new_step()
        if self.plain and step == self.stop_after:
            os.kill(os.getpid(), signal.SIGTERM)  # on each rank in the same step; the script saves now, and ends

    def normalise(self, module: Any, x: Any) -> None:
        if not any(m is module for m in self.norms):
            self.norms.append(module)
            self.begin_with(self.state_of_norm(len(self.norms) - 1))
        if self.normalised is None:
            self.normalised = int(x.shape[0])
            if type(module).__name__ == "SyncBatchNorm":
                self.normalised *= bellows.world_size()

    def drop(self, torch: Any, x: Any) -> None:
        if self.dropout is None and not self.again:
            state = torch.cuda.get_rng_state(x.device) if x.is_cuda else torch.get_rng_state()
            self.dropout = hashlib.sha256(state.numpy().tobytes()).hexdigest()

    def scale_back(self, scaler: Any) -> None:
        """Have the step's losses be what they were before the scaler multiplied them, which is about to step an optimizer."""
        if not any(s is scaler for s in self.scalers):
            self.scalers.append(scaler)
            self.begin_with(self.state_of_scaler(len(self.scalers) - 1))
        for n in range(self.unscaled, len(self.losses)):
            if self.losses[n] is not None:
                self.losses[n] = self.losses[n] / scaler.get_scale()
        self.unscaled = len(self.losses)

    def average(self, average: Any) -> None:
        if not any(a is average for a in self.averages):
            self.averages.append(average)
            self.begin_with(self.state_of_average(len(self.averages) - 1))

    def begin_with(self, state: Iterator[State]) -> None:
        """Note state with which a world comes to where it is first changed: in a resumed one it should be what was saved."""
        with open(self.name() + ".began.bin", "ab") as f:
            self.began += [written(f, *each) for each in state]

    def look(self) -> Dict[str, Tuple[str, bool]]:
        """Return digests of what the script holds beside what is in optimizers, and whether each has the value of a parameter."""
        trained = {id(p): p for o in self.optimizers for group in o.param_groups for p in group["params"]}
        values = {digest_of(p) for p in trained.values()}
        shapes = {tuple(p.shape) for p in trained.values()}
        answer = {}
        for place, tensor in held(set(trained), shapes).items():
            try:
                digest = digest_of(tensor)
            except (NotImplementedError, RuntimeError):
                continue  # it has no values, as of the device "meta"
            answer[place] = (digest, digest in values)
        return answer

    def hold(self) -> None:
        """Note what the script holds once the world's last step is over; what is noted first is nearest to the save."""
        if self.last is not None and self.last == self.stop_after:
            for place, (digest, _) in self.look().items():
                self.held.setdefault(place, (digest, place in self.copies))

    # -- the end -------------------------------------------------------------

    def name(self) -> str:
        return os.path.join(self.directory, f"rank-{bellows.rank():05d}")

    def saved(self, step: int) -> None:
        """Note the state that the last checkpoint of this world is of, whatever the script makes of it afterwards."""
        if self.ended is None and step == self.stop_after + 1 and self.optimizers:
            self.end()
        self.hold()

    def end(self) -> None:
        with open(self.name() + ".bin", "wb") as f:
            self.ended = [written(f, key, tensor, part) for key, tensor, part in self.state()]

    def reached_end(self) -> bool:
        """Tell whether the last step of this world has begun."""
        return self.stop_after in (self.begun, self.last)

    def write(self) -> None:
        if not self.here():
            return
        name = self.name()
        if self.ended is None:
            self.end()
        self.hold()
        told = {
            "rank": bellows.rank(),
            "steps": {str(step): seen for step, seen in sorted(self.steps.items())},
            "tensors": self.ended,
            "began": self.began,
            "held_began": self.held_began,
            "held": self.held,
            "batch_norm": [type(m).__name__ for m in self.norms],
            "stream": self.stream,
            "first_s": self.first_s,
            "last_s": self.last_s,
        }
        with open(name + ".tmp", "w", encoding="utf-8") as text:
            json.dump(told, text)
        os.replace(name + ".tmp", name + ".json")

    def state(self) -> Iterator[State]:
        """Yield all that training changes, what one rank alone may have last."""
        for o in range(len(self.optimizers)):
            yield from self.state_of(o)
        for n in range(len(self.norms)):
            yield from self.state_of_norm(n)
        for n in range(len(self.scalers)):
            yield from self.state_of_scaler(n)
        for n in range(len(self.averages)):
            yield from self.state_of_average(n)
        if not self.optimizers:
            for place, array in self.kept:
                yield place, array, None

    def state_of(self, number: int) -> Iterator[State]:
        optimizer = self.optimizers[number]
        for g, group in enumerate(optimizer.param_groups):
            for p, parameter in enumerate(group["params"]):
                place = f"optimizer {number} group {g} parameter {p}"
                part = self.zero_part(optimizer, g)
                yield place, parameter.detach(), part or part_of(parameter)
                for key, value in sorted(optimizer.state.get(parameter, {}).items(), key=str):
                    if hasattr(value, "detach"):
                        yield f"{place} {key}", value.detach(), part if part and value.shape == parameter.shape else part_of(value)

    def zero_part(self, optimizer: Any, group: int) -> Optional[Tuple[int, int]]:
        """Return where this rank's part of a group of parameters begins that DeepSpeed's ZeRO shares out, and how long the whole is."""
        zero: Any = getattr(self.engine, "optimizer", None)
        if not hasattr(zero, "bit16_groups") or zero.optimizer is not optimizer:
            return None
        whole = sum(p.numel() for p in zero.bit16_groups[group])
        return min(whole, bellows.rank() * optimizer.param_groups[group]["params"][0].numel()), whole

    def state_of_norm(self, number: int) -> Iterator[State]:
        for key in ("running_mean", "running_var"):
            if getattr(self.norms[number], key, None) is not None:
                yield f"batch norm {number} {key}", getattr(self.norms[number], key).detach(), None

    def state_of_scaler(self, number: int) -> Iterator[State]:
        kept = self.scalers[number].state_dict()
        yield f"loss scaler {number}", sys.modules["torch"].tensor([float(kept["scale"]), float(kept["_growth_tracker"])]), None

    def state_of_average(self, number: int) -> Iterator[State]:
        average = self.averages[number]
        yield f"average {number} steps", average.n_averaged.detach(), None
        for p, parameter in enumerate(average.module.parameters()):
            yield f"average {number} parameter {p}", parameter.detach(), part_of(parameter)


def finite(value: float) -> Optional[float]:
    return value if math.isfinite(value) else None  # JSON knows no other numbers


def tensors_of(data: Any, depth: int = 3) -> Iterator[Any]:
    """Yield the tensors of a batch, or of the arguments of a call."""
    if hasattr(data, "untyped_storage") or hasattr(data, "storage"):
        yield data
    elif depth and isinstance(data, collections.abc.Mapping):
        for value in list(data.values()):
            yield from tensors_of(value, depth - 1)
    elif depth and isinstance(data, (list, tuple)):
        for value in data:
            yield from tensors_of(value, depth - 1)


def storage_of(tensor: Any) -> Any:
    """Return a weak reference to what a tensor and its views have in common; None: it has no such thing."""
    weak = sys.modules["torch.multiprocessing.reductions"].StorageWeakRef
    try:
        return weak(tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage())
    except (AttributeError, NotImplementedError, RuntimeError):
        return None  # as of sparse tensors, and of subclasses without data of their own


def inputs_of(data: Any) -> List[str]:
    """Return a digest of each sample that a module is given: of the rows of the first tensor, with those of others that have as many.

    What was computed with gradients, as by another module, is none of the data's.
    """
    parameter = sys.modules["torch"].nn.Parameter
    found = [local(t) for t in tensors_of(data) if getattr(t, "grad_fn", None) is None and not isinstance(t, parameter)]
    try:
        rows = [rows_of(t) for t in found]
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return []  # as of sparse tensors
    if not rows or len(rows[0]) > MAX_INPUTS:
        return []
    alike = [r for r in rows if len(r) == len(rows[0])]
    return [hashlib.blake2b(b"".join(row), digest_size=8).hexdigest() for row in zip(*alike)]


def rows_of(tensor: Any) -> List[bytes]:
    """Return the bytes of each row of a tensor; one without dimensions is a row."""
    flat = tensor.detach().cpu().reshape(tensor.shape[0] if tensor.dim() else 1, -1).contiguous()
    if flat.shape[1] == 0:
        return [b""] * int(flat.shape[0])
    array = flat.view(sys.modules["torch"].uint8).numpy()
    return [row.tobytes() for row in array]


def digest_of(tensor: Any) -> str:
    return hashlib.sha256(local(tensor.detach()).cpu().contiguous().reshape(-1).double().numpy().tobytes()).hexdigest()[:16]


def held(known: Set[int], shapes: Set[Tuple[int, ...]]) -> Dict[str, Any]:
    """Return the tensors that may be state of the training: those that the script's variables hold, of the shape of a parameter, and those of its modules.

    Variables are those of the main module and of its functions that run now. What is known by its number is left out,
    and what a gradient passes through.
    """
    main = sys.modules["__main__"].__dict__
    spaces: List[Tuple[str, Dict[str, Any]]] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is main and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function
            kept = frame.f_locals
            spaces.append((frame.f_code.co_name + "() ", dict(kept)))
            if type(kept) is dict:
                kept.clear()  # of Python before 3.13 a copy, which would keep tensors
        frame = frame.f_back
    spaces.append(("", dict(main)))
    walk = Walk(known, shapes)
    for place, variables in reversed(spaces):
        for name, value in variables.items():
            if not name.startswith("__"):
                walk.reach(place + name, value, MAX_DEPTH)
    return walk.found


class Walk:
    """Goes from variables to the tensors that they hold."""

    def __init__(self, known: Set[int], shapes: Set[Tuple[int, ...]]) -> None:
        self.torch = sys.modules["torch"]
        self.seen, self.shapes = set(known), shapes
        self.found: Dict[str, Any] = {}

    def reach(self, place: str, value: Any, depth: int) -> None:
        kind = type(value)
        if kind in (int, float, str, bytes, bool, type(None)) or id(value) in self.seen or len(self.seen) > MAX_HELD:
            return
        self.seen.add(id(value))
        if issubclass(kind, self.torch.Tensor):
            self.note(place, value, tuple(value.shape) in self.shapes)
        elif issubclass(kind, (self.torch.optim.Optimizer, self.torch.optim.swa_utils.AveragedModel)):
            pass  # seen otherwise
        elif issubclass(kind, self.torch.nn.Module):
            self.reach_module(place, value)
        elif issubclass(kind, dict):
            self.reach_all([(f"{place}[{key!r:.80}]", each) for key, each in list(value.items())[:MAX_HELD]], depth)
        elif issubclass(kind, (list, tuple)):
            self.reach_all([(f"{place}[{n}]", each) for n, each in enumerate(value[:MAX_HELD])], depth)
        elif not issubclass(kind, (type, types.ModuleType, types.FunctionType)):
            variables = getattr(value, "__dict__", None)
            if type(variables) is dict:
                self.reach_all([(f"{place}.{name}", each) for name, each in list(variables.items())], depth)

    def reach_all(self, values: List[Tuple[str, Any]], depth: int) -> None:
        for place, each in values:
            if depth > 0:
                self.reach(place, each, depth - 1)

    def reach_module(self, place: str, module: Any) -> None:
        for name, each in module.named_modules():
            if isinstance(each, self.torch.nn.modules.batchnorm._NormBase):
                continue  # its running statistics are seen otherwise
            self.seen.add(id(each))
            for own, tensor in [*each._parameters.items(), *each._buffers.items()]:
                if tensor is not None and id(tensor) not in self.seen:
                    self.seen.add(id(tensor))
                    self.note(".".join(part for part in (place, name, own) if part), tensor, True)

    def note(self, place: str, tensor: Any, state: bool) -> None:
        if state and tensor.is_floating_point() and tensor.numel() > 1 and tensor.grad_fn is None and tensor.layout == self.torch.strided:
            self.found[place] = tensor


def length_of(sampler: Any) -> int:
    """Return how many batches a pass over a loader's data has; 0: it does not know."""
    try:
        return len(sampler)
    except (TypeError, NotImplementedError):
        return 0


def precision_of(optimizer: Any) -> Optional[str]:
    for group in optimizer.param_groups:
        for p in group["params"]:
            return str(p.dtype).replace("torch.", "")
    return None


def autocast_of(torch: Any) -> Optional[str]:
    """Return the type of numbers that autocast computes with; None: it is off."""
    for kind in ("cuda", "cpu"):
        try:
            on, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype
        except TypeError:  # torch before 2.4
            on, dtype = (torch.is_autocast_cpu_enabled(), lambda _: torch.get_autocast_cpu_dtype()) if kind == "cpu" else (
                torch.is_autocast_enabled(),
                lambda _: torch.get_autocast_gpu_dtype(),
            )
        if on:
            return str(dtype(kind)).replace("torch.", "")
    return None


def local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def squared_norm(optimizer: Any) -> Any:
    """Return the squared norm of the gradients that this rank holds, and whether others hold other parts."""
    total, sharded = 0.0, False
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                sharded = sharded or hasattr(p.grad, "to_local")
                grad = local(p.grad.detach())
                grad = grad.coalesce().values() if grad.is_sparse else grad
                total += float(grad.double().pow(2).sum())
    return total, sharded


def part_of(tensor: Any) -> Optional[Tuple[int, int]]:
    """Return where a rank's part of a tensor begins that is sharded in rows, as FSDP2's are, and how long the whole is."""
    if not hasattr(tensor, "to_local"):
        return None
    if tensor.device_mesh.ndim != 1:
        return 0, local(tensor).numel()
    rows = tensor.shape[0] if tensor.dim() else 1
    each = -(-rows // tensor.device_mesh.size())
    # By this rank, and not by the mesh, which may no longer know it at the end of the process.
    return min(rows, bellows.rank() * each) * (tensor.numel() // max(rows, 1)), tensor.numel()


def written(f: Any, key: str, tensor: Any, part: Optional[Tuple[int, int]]) -> Dict[str, Any]:
    """Append a tensor's values to a file, as little-endian doubles; return what describes them.

    Which values of a large one are written does not depend on how it is shared out.
    """
    if not hasattr(tensor, "detach"):  # an array of numpy's
        flat = tensor.reshape(-1).astype("<f8")
        some = flat[:: -(-max(flat.size, 1) // MAX_VALUES)]
        f.write(some.tobytes())
        return {"name": key, "values": some.size, "digest": hashlib.sha256(flat.tobytes()).hexdigest(), "sharded": False, "type": str(tensor.dtype)}
    values = local(tensor).cpu().contiguous().reshape(-1)
    begin, whole = part or (0, values.numel())
    values = values[: max(0, whole - begin)]
    digest = hashlib.sha256(values.double().numpy().astype("<f8").tobytes()).hexdigest()
    stride = -(-max(whole, 1) // MAX_VALUES)
    values = values[-begin % stride :: stride]
    f.write(values.double().numpy().astype("<f8").tobytes())
    return {"name": key, "values": len(values), "digest": digest, "sharded": part is not None, "type": str(tensor.dtype)}


def wrap(owner: Any, name: str, after: Callable[..., None]) -> None:
    """Have ``after(answer, *args)`` called once a function has returned, in the training process."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        answer = inner(*args, **kwargs)
        if recorder.here():
            after(answer, *args, **kwargs)
        return answer

    setattr(owner, name, outer)


def wrap_before(owner: Any, name: str, before: Callable[..., None]) -> None:
    """Have ``before(*args)`` called before a function, in the training process."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        if recorder.here():
            before(*args, **kwargs)
        return inner(*args, **kwargs)

    setattr(owner, name, outer)


def wrap_layer(owner: Any, name: str, before: Callable[..., None]) -> None:
    """Do as `wrap_before`, but for what torch.compile traces, which is compiled as if nothing observed it."""
    inner = getattr(owner, name)
    torch = sys.modules["torch"]
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)  # torch before 2.1 compiles nothing of ours
    if compiling is None:
        wrap_before(owner, name, before)
        return

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        if compiling():
            return inner(*args, **kwargs)
        if recorder.here():
            before(*args, **kwargs)
        return inner(*args, **kwargs)

    setattr(owner, name, outer)


def watch_module() -> None:
    wrap(bellows, "indices", lambda found, step, *_, **__: recorder.indices(step, found))
    wrap(bellows, "should_stop", lambda stop, step: recorder.should_stop(step, stop))
    wrap(bellows, "report", lambda _, step, samples=None, loss=None, *_more, **_named: recorder.report(step, loss))


def watch_use() -> None:
    """Notice that the script uses the module: it then asks when to stop, and needs no signal."""

    def used(*_: Any, **__: Any) -> None:
        recorder.plain = False

    for name in ("standalone", "resume", "should_stop", "indices", "position", "save"):
        wrap_before(bellows, name, used)


def watch_arrays() -> None:
    """Keep what a script without torch's optimisers writes into its checkpoints: arrays, by numpy's functions."""
    inner = bellows.save

    @functools.wraps(inner)
    def save(step: int, write: Callable[[str], object], samples: Optional[int] = None) -> None:
        def writing(directory: str) -> None:
            recorder.kept = []
            undo = [watch_writer(*each) for each in writers()]
            try:
                write(directory)
            finally:
                for each in undo:
                    each()

        inner(step, writing if recorder.here() else write, samples)
        if recorder.here():
            recorder.saved(int(step))

    bellows.save = save


def writers() -> List[Any]:
    """Return the functions that write arrays, of what the script has imported, and how their trees are found."""
    found: List[Any] = []
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        for name in ("savez", "savez_compressed"):
            found.append((numpy, name, lambda file, *args, **named: {**{f"arr_{n}": a for n, a in enumerate(args)}, **named}))
        found.append((numpy, "save", lambda file, arr, *_, **__: {os.path.basename(str(file)): arr}))
    return found


def watch_writer(owner: Any, name: str, tree: Callable[..., Any]) -> Callable[[], None]:
    """Have a function's arrays kept; return what undoes that."""
    inner = owner.__dict__[name]

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        keep_tree("saved", tree(*args, **kwargs))
        return inner(*args, **kwargs)

    setattr(owner, name, outer)
    return lambda: setattr(owner, name, inner)


def keep_tree(place: str, tree: Any) -> None:
    """Keep copies of the arrays of a tree that are whole on this rank."""
    if isinstance(tree, dict):
        for key in sorted(tree, key=str):
            keep_tree(f"{place} {key}", tree[key])
    elif isinstance(tree, (list, tuple)):
        for n, each in enumerate(tree):
            keep_tree(f"{place} {n}", each)
    elif hasattr(tree, "shape") and hasattr(tree, "dtype") and not hasattr(tree, "detach"):
        if getattr(tree, "is_fully_replicated", False):
            tree = tree.addressable_data(0)
        elif not getattr(tree, "is_fully_addressable", True):
            return  # its parts are on other ranks
        array = sys.modules["numpy"].array(tree)
        if array.dtype.kind in "fiub" or str(array.dtype) == "bfloat16":
            recorder.kept.append((place, array))


def watch_step(kind: Any) -> None:
    inner = kind.step

    @functools.wraps(inner)
    def step(self: Any, closure: Any = None, *args: Any, **kwargs: Any) -> Any:
        if closure is None:
            if recorder.here():
                recorder.stepped(self)
            return inner(self, *args, **kwargs)
        try:
            return inner(self, watched(self, closure), *args, **kwargs)
        finally:
            recorder.again = False

    kind.step = step


def watched(optimizer: Any, closure: Callable[[], Any]) -> Callable[[], Any]:
    """Observe a step's closure, as of Lightning and LBFGS: the backward pass is part of the step, and may be made again and again.

    What counts is the first evaluation, at the parameters that the step begins with.
    """

    def evaluate() -> Any:
        answer = closure()
        if recorder.here() and not recorder.again:
            recorder.stepped(optimizer)
            recorder.again = True
        return answer

    return evaluate


def watch_torch() -> None:
    import torch
    from torch.optim import lr_scheduler

    wrap_before(torch.Tensor, "backward", lambda loss, *_, **__: recorder.backward(loss))
    wrap(torch.Tensor, "backward", lambda *_, **__: recorder.backward_over())
    watched: Dict[Any, bool] = {}

    def watch_steps(_: Any, optimizer: Any, *__: Any, **___: Any) -> None:
        kind = next(k for k in type(optimizer).__mro__ if "step" in k.__dict__)
        if kind not in watched:
            watched[kind] = True
            watch_step(kind)

    wrap(torch.optim.Optimizer, "__init__", watch_steps)

    def scheduled(_: Any, scheduler: Any, *__: Any, **___: Any) -> None:
        recorder.scheduled += 1
        recorder.scheduler = scheduler

    base = getattr(lr_scheduler, "LRScheduler", None) or lr_scheduler._LRScheduler
    wrap(base, "step", scheduled)
    watch_modules(torch)
    watch_dropout(torch)
    watch_clipping(torch)
    watch_scaling(torch)
    wrap_before(torch.optim.swa_utils.AveragedModel, "update_parameters", lambda average, *_, **__: recorder.average(average))
    watch_loaders(torch)


def watch_calls(torch: Any) -> None:
    """Have noted what the outermost module that trains is given."""
    inner = torch.nn.Module.__call__
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)

    @functools.wraps(inner)
    def outer(self: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling is not None and compiling():
            return inner(self, *args, **kwargs)
        if threading.current_thread() is not threading.main_thread() or not recorder.here():
            return inner(self, *args, **kwargs)
        if recorder.depth == 0 and not recorder.again and torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters()):
            given = inputs_of((args, kwargs))
            if given:
                recorder.call = given
        recorder.depth += 1
        try:
            return inner(self, *args, **kwargs)
        finally:
            recorder.depth -= 1

    torch.nn.Module.__call__ = outer


def watch_modules(torch: Any) -> None:
    importlib.import_module("torch.multiprocessing.reductions")

    def called(module: Any, *args: Any, **kwargs: Any) -> None:
        if not torch.is_grad_enabled():
            return  # of an evaluation
        recorder.forward((args, kwargs))
        if type(module).__name__ == "DeepSpeedEngine":
            recorder.engine = module
        if recorder.precision is None:
            recorder.precision = autocast_of(torch)
        if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
            compiled(torch, module, next(tensors_of((args, kwargs)), None))

    wrap_layer(torch.nn.Module, "__call__", called)
    watch_calls(torch)
    wrap_before(torch, "save", lambda *_, **__: recorder.hold())


def compiled(torch: Any, whole: Any, x: Any) -> None:
    """Note what a compiled module is about to do of what its layers would be seen to do: it draws masks, and takes batch statistics."""
    if x is None:
        return
    for module in whole.modules():
        if module.training and isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            recorder.normalise(module, x)
        if module.training and isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0:
            recorder.drop(torch, x)


def watch_clipping(torch: Any) -> None:
    """Count how often gradients are clipped: the names in torch.nn.utils are the same functions as those of its module."""

    def clipped(*_: Any, **__: Any) -> None:
        recorder.clipped += 1

    for name in ("clip_grad_norm_", "clip_grad_value_"):
        wrap_before(torch.nn.utils.clip_grad, name, clipped)
        setattr(torch.nn.utils, name, getattr(torch.nn.utils.clip_grad, name))


def watch_scaling(torch: Any) -> None:
    """Have losses noted without the factor of a scaler, and steps that it skips."""
    kind = getattr(getattr(torch, "amp", None), "GradScaler", None) or torch.cuda.amp.GradScaler  # of torch before 2.3
    inner = kind.step

    @functools.wraps(inner)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if not recorder.here() or not self.is_enabled():
            return inner(self, optimizer, *args, **kwargs)
        recorder.scale_back(self)
        before = recorder.optimizer_steps
        answer = inner(self, optimizer, *args, **kwargs)
        if recorder.optimizer_steps == before:
            recorder.stepped(optimizer, skipped=True)
        return answer

    kind.step = step


def watch_dropout(torch: Any) -> None:
    def dropped(x: Any, p: float = 0.5, training: bool = True, *_: Any, **__: Any) -> None:
        if training and p > 0 and torch.is_grad_enabled():
            recorder.drop(torch, x)

    wrap_layer(torch.nn.functional, "dropout", dropped)

    def normalised(module: Any, x: Any, *_: Any, **__: Any) -> None:
        if module.training:
            recorder.normalise(module, x)

    wrap_layer(torch.nn.modules.batchnorm._BatchNorm, "forward", normalised)
    wrap_layer(torch.nn.SyncBatchNorm, "forward", normalised)


def wrap_end(iterator: Any, ended: Callable[[], object]) -> None:
    """Have a function called when a loader has no more batches, in the training process."""
    inner = iterator.__next__

    @functools.wraps(inner)
    def outer(self: Any) -> Any:
        try:
            return inner(self)
        except StopIteration:
            if recorder.here():
                ended()
            raise

    iterator.__next__ = outer


def watch_loaders(torch: Any) -> None:
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter

    def asked(index: Any, loader: Any) -> None:
        if not hasattr(loader, "_bellows_asked"):
            loader._bellows_asked = collections.deque()
        whole = list(index) if isinstance(index, (list, tuple)) else [index]
        loader._bellows_asked.append(whole)

    def given(data: Any, loader: Any) -> None:
        waiting = getattr(loader, "_bellows_asked", None)
        batch = waiting.popleft() if waiting else []
        if not torch.is_grad_enabled():
            return  # an evaluation's
        try:
            recorder.take(loader._index_sampler, [int(i) for i in batch], data)
        except (TypeError, ValueError):
            recorder.stream = True

    def ended() -> None:
        if torch.is_grad_enabled():
            recorder.pass_over()

    wrap(iterator, "_next_index", asked)
    wrap(iterator, "__next__", given)
    wrap_end(iterator, ended)


def leave_lightly() -> None:
    """Have Python end without its last collections of garbage, which take a second or more of a process with torch.

    Exit handlers run and files are flushed as ever. A script that fails, or ends before the world's last step, ends
    as it would otherwise: libraries complain of what was not collected, and that would hide what it said.
    """
    if recorder.here() and recorder.reached_end() and getattr(sys, "last_value", None) is None:
        gc.freeze()


recorder = Recorder(os.environ["BELLOWS_VERIFY"])
watch_module()
watch_arrays()
watch_use()
if importlib.util.find_spec("torch") is not None:
    watch_torch()
atexit.register(leave_lightly)  # after the other
atexit.register(recorder.write)
