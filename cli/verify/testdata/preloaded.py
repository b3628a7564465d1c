"""The tests' interpreter, for scripts that need torch: importing it takes longer than all that they do.

`preloaded.py serve SOCKET` imports torch once; `preloaded.py run SOCKET SCRIPT` has it fork a process that runs the
script, with the caller's environment, output and status. `bellows verify` itself forks nothing.
"""

import os
import signal
import socket
import sys
import time


def serve(path):
    import numpy, torch, torch.distributed  # noqa: E401
    import torch.multiprocessing.reductions, torch.nn.parallel, torch.optim.swa_utils, torch.utils.data  # noqa: E401

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(64)
    os.rename(path + ".new", path)
    while True:
        conn, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            attend(conn)
        conn.close()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def attend(conn):
    """Run one script in a child of its own, which dies with its caller; tell how it has ended."""
    text, fds, _, _ = socket.recv_fds(conn, 1 << 20, 2)
    pid = os.fork()
    if pid == 0:
        conn.close()
        os.setsid()
        become(*text.decode().split("\0\0"), fds)
    watcher = os.fork()
    if watcher == 0:
        conn.recv(1)  # nothing but the caller's end
        os.killpg(pid, signal.SIGKILL)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    os.kill(watcher, signal.SIGKILL)
    try:
        conn.sendall(b"%d" % os.waitstatus_to_exitcode(status))
    except BrokenPipeError:
        pass  # the caller was killed
    os._exit(0)


def await_master():
    """A rank that comes before rank 0 listens sleeps for half a second and more."""
    end = time.monotonic() + 0.3
    while os.environ["RANK"] != "0" and time.monotonic() < end:
        try:
            return socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 0.1).close()
        except OSError:
            time.sleep(0.002)


def become(script, environ, fds):
    for fd in (1, 2):
        os.dup2(fds[fd - 1], fd)
    os.environ.clear()
    os.environ.update(line.split("=", 1) for line in environ.split("\0"))
    await_master()
    sys.path[0] = os.path.dirname(script)
    sys.path[1:1] = os.environ["PYTHONPATH"].split(":")
    sys.argv = [script] + os.environ.get("TRAIN_ARGUMENTS", "").split()
    __import__("bellows")  # as verify_site does once torch is there
    sys.modules["bellows_preloaded"] = sys.modules["__main__"]  # whose functions are still needed
    sys.modules["__main__"] = main = type(sys)("__main__")
    main.__file__ = script
    with open(script) as f:
        code = compile(f.read(), script, "exec")
    try:
        exec(code, main.__dict__)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as err:
        status = 1
        sys.last_value = err
        sys.excepthook(type(err), err, err.__traceback__)
    __import__("atexit")._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run(path, script):
    conn = socket.socket(socket.AF_UNIX)
    conn.connect(path)
    environ = "\0".join(f"{name}={value}" for name, value in os.environ.items())
    socket.send_fds(conn, [f"{script}\0\0{environ}".encode()], [1, 2])
    status = int(conn.recv(64) or b"1")
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    {"serve": serve, "run": run}[sys.argv[1]](*sys.argv[2:])
