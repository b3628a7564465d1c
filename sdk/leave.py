"""What lets a worker leave at once when its script has ended.

An interpreter that has imported PyTorch takes a second to be torn down, and a rescale waits for it. Most of that time
goes into collections of garbage in which nothing happens that anyone could see. So a worker whose script has ended
well, and of which this module can prove that, leaves after its exit handlers without the rest. Whatever is not known to be
without effect leaves the interpreter to be torn down as always: the proof decides about time only.
"""

import gc
import os
import sys

MYPY = False
if MYPY:
    from typing import Any, Set

# Installed packages, and system libraries by the begin of their names, that do nothing of note when a process exits. HDF5's
# library, which then writes what it holds back, is not among them; nor is what was never looked at.
QUIET_PACKAGES = frozenset(
    """torch torchgen torchvision torchvision.libs torchaudio functorch triton numpy numpy.libs scipy scipy.libs jax jaxlib ml_dtypes nvidia cuda pandas pandas.libs PIL
    pillow.libs yaml regex tokenizers safetensors sentencepiece sklearn scikit_learn.libs psutil google markupsafe msgpack xxhash tiktoken cv2
    opencv_python.libs opencv_python_headless.libs matplotlib kiwisolver contourpy fontTools charset_normalizer simplejson orjson rpds pydantic_core
    zstandard lz4 frozenlist multidict yarl aiohttp propcache hf_xet accelerate deepspeed mypyc""".split()
)
QUIET_LIBRARIES = tuple(
    """ld-linux ld-musl libc. libc- libm. libm- libdl. libpthread librt. libutil. libresolv. libnss_ libstdc++. libgcc_s. libz. libbz2. liblzma. libzstd. libffi. libssl.
    libcrypto. libexpat. libuuid. libsqlite3. libncurses libtinfo. libreadline. libpython libblas. liblapack. libopenblas libgfortran. libquadmath. libgomp. libiomp5.
    libmkl_ libnuma. libatomic. libtorch libc10 libshm. libprotobuf. libprotobuf- libonnx libgloo. libsleef. libtensorpipe libfmt. libcpuinfo. libpthreadpool.
    libXNNPACK. libnnpack. libqnnpack. libpytorch_qnnpack. libfbgemm. libibverbs. libmlx libnl- libcuda. libcudart. libcublas libcudnn libcufft libcurand libcusolver
    libcusparse libnccl libnvrtc libnvToolsExt libnvJitLink libnvidia- libcupti libdnnl. libonednn libuv. libnsl. libtirpc. libkrb5 libk5crypto libcom_err libgssapi_krb5
    libkeyutils libfribidi. libmpdec. libdb- libgdbm""".split()
)
# Modules whose finalizers and callbacks only give back what ends with the process.
QUIET_MODULES = frozenset(
    """_io io _thread threading weakref _weakref _weakrefset functools abc _abc socket _socket ssl selectors select subprocess tempfile multiprocessing
    concurrent asyncio contextlib torch numpy jax jaxlib copyreg typing collections ctypes _ctypes builtins logging mmap posix
    bellows""".split()
)
# Of these, those that do more.
LOUD = frozenset(["TemporaryDirectory", "_TemporaryFileCloser", "_TemporaryFileWrapper", "SpooledTemporaryFile", "Popen", "DataLoader", "_MultiProcessingDataLoaderIter"])

HAS_GC = 1 << 14  # of a class: collections know of its objects


def leave(pid: int) -> None:
    """Leave, if nothing would be seen of a teardown; else return. Python calls it as the last of the exit handlers."""
    if os.getpid() != pid or not ended_well() or not nothing_left() or not quiet_libraries():
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            return  # the interpreter says so, by its status
    sys.modules["ctypes"].CDLL(None).fflush(None)
    os._exit(0)


def ended_well() -> bool:
    """Report whether the script has come to its end, which is status 0: no exception was printed, and none asks to exit."""
    if any(hasattr(sys, name) for name in ("last_type", "last_exc", "last_value")):
        return False
    import ctypes

    if not str(getattr(ctypes, "__file__", "")).startswith(os.path.dirname(os.__file__) + os.sep):
        return False  # the script's own module of that name
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "backtrace_symbols"):
        return False  # another C library
    frames = (ctypes.c_void_p * 256)()
    count = libc.backtrace(frames, 256)
    libc.backtrace_symbols.restype = ctypes.POINTER(ctypes.c_char_p)
    names = libc.backtrace_symbols(frames, count)
    called = {names[i].partition(b"(")[2].partition(b"+")[0] for i in range(count)}
    return count < 256 and b"Py_RunMain" in called and not called & {b"Py_Exit", b"PyErr_PrintEx", b"PyErr_Print"}


def nothing_left() -> bool:
    """Report whether no object is left whose end could be seen: by a finalizer, a callback, a finally, or a file that is written."""
    threading = sys.modules.get("threading")
    if threading is not None and any(t is not threading.main_thread() and not of_bellows(t) for t in threading.enumerate()):
        return False
    objects = gc.get_objects()
    kinds = set(map(type, objects))  # by their types: what an object says of itself runs its code
    ends = {kind for kind in kinds if finalizes(kind)}
    generators = {kind for kind in kinds if kind.__name__ in ("generator", "coroutine", "async_generator")}
    references = {kind for kind in kinds if issubclass(kind, sys.modules["_weakref"].ref)}
    streams = {kind for kind in kinds if issubclass(kind, sys.modules["_io"]._IOBase)}
    in_memory = (sys.modules["_io"].BytesIO, sys.modules["_io"].StringIO)
    classes = {kind for kind in kinds if issubclass(kind, type)}
    wanted = ends | generators | references | streams | classes
    std = (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
    own = {id(part) for s in std if s is not None for part in (s, getattr(s, "buffer", None), getattr(getattr(s, "buffer", None), "raw", None))}
    for thing in [o for o in objects if type(o) in wanted]:
        kind = type(thing)
        if kind in classes:
            # Objects that no collection knows of are ended all the same.
            seen = "__del__" in type.__getattribute__(thing, "__dict__") and not thing.__flags__ & HAS_GC and not quiet(thing.__module__)
        elif kind in streams:
            seen = id(thing) not in own and kind not in in_memory and not thing.closed and thing.writable()
        elif kind in generators:
            seen = suspended(thing)
        elif kind in references:
            seen = of_user(thing.__callback__)
        else:
            seen = True
        if seen:
            return False
    return True


def of_bellows(thread: "Any") -> bool:
    """Report whether a thread is the one by which the module bellows hears the shim: it holds nothing back."""
    return getattr(getattr(thread, "_target", None), "__module__", None) == "bellows"


def finalizes(kind: type) -> bool:
    for base in kind.__mro__:
        if "__del__" in base.__dict__:
            return base.__name__ in LOUD or not quiet(base.__module__)
    return kind.__name__ in LOUD


def quiet(module: "Any") -> bool:
    return isinstance(module, str) and module.partition(".")[0] in QUIET_MODULES


def of_user(callback: "Any") -> bool:
    """Report whether a callback is the user's own code: those of packages keep their own books."""
    callback = getattr(callback, "__func__", callback)
    code = getattr(callback, "__code__", None)
    if code is None:
        return callback is not None and type(callback).__module__ not in ("builtins", "functools", "weakref")
    return "-packages/" not in code.co_filename and not code.co_filename.startswith(("<frozen ", os.path.dirname(os.__file__)))


def suspended(generator: "Any") -> bool:
    for name in ("gi_", "cr_", "ag_"):
        frame = getattr(generator, name + "frame", None)
        # One that never began, as of a context manager that decorates a function, has no finally. From Python 3.11 on its frame does not tell.
        waits = getattr(generator, name + "suspended", None)
        began = getattr(generator, name + "running", False) or (waits if waits is not None else frame is not None and frame.f_lasti >= 0)
        if frame is not None and began and not quiet(frame.f_globals.get("__name__")):
            return True
    return False


def quiet_libraries() -> bool:
    """Report whether all that is loaded is known to do nothing of note when the process exits."""
    own = os.path.dirname(os.__file__) + os.sep
    with open("/proc/self/maps", "rb") as f:
        paths = {line.split(None, 5)[5].strip() for line in f if line.count(b"/")}  # type: Set[bytes]
    for raw in paths:
        path = os.fsdecode(raw)
        name = os.path.basename(path)
        if ".so" not in name or name.startswith(QUIET_LIBRARIES):
            continue
        folder = path.rpartition("-packages/")[2] if "-packages/" in path else ""
        if folder:
            if folder.partition("/")[0].partition(".cpython")[0] not in QUIET_PACKAGES:
                return False
        elif not path.startswith(own) and "/lib-dynload/" not in path:
            return False
    return True
