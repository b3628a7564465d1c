"""What forks the workers of `bellows verify`: one Python process that has imported what the script imports.

`bellows verify` starts it as `python [options] -c "import bellows_verify_launch; bellows_verify_launch.main(FD)"`
once a first world, of processes of its own, has shown what the script imports. On the socket FD it gets
its orders, in lines of JSON: what to import, and then a world at a time, whose workers it forks and
waits for. What must not be imported before a fork is found out as for warm starts, by the launcher of those.
"""

import os
import signal
import socket
import sys
import time
from typing import Any, Dict, List

import bellows_launcher


# No rank comes to MASTER_PORT before rank 0 listens there: it would sleep for half a second and more.
MASTER_BOUND_S = 0.3


def main(fd: int) -> None:
    """Carry out the orders; returns never."""
    bellows_launcher.record = observe
    channel = bellows_launcher.Channel(socket.socket(fileno=fd))
    os.set_inheritable(fd, False)
    launcher = bellows_launcher.Launcher(channel.receive())
    launcher.load()
    why = "" if launcher.excluded else launcher.unfit()
    if launcher.excluded or why:
        channel.send({"again": launcher.excluded} if launcher.excluded else {"cold": why})
        os._exit(0)
    bellows_launcher.share_memory()
    channel.send({"ready": True})
    while True:
        order = channel.receive()
        why = launcher.changed()
        if why:
            channel.send({"cold": why})
            os._exit(0)
        train(channel, launcher, order["workers"])


def train(channel: Any, launcher: Any, workers: List[Dict[str, Any]]) -> None:
    """Fork the workers of a world, and tell how each has ended."""
    ranks: Dict[int, int] = {}
    ends: List[socket.socket] = []
    for rank, worker in enumerate(workers):
        mine, theirs = socket.socketpair()
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            try:
                channel.socket.close()
                for end in [*ends, mine]:
                    end.close()
                out = os.open(worker["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                bellows_launcher.become(launcher, {"worker": rank, "env": worker["env"]}, out, theirs, parent)
            except BaseException as err:
                os.write(2, f"bellows: the worker could not be forked: {type(err).__name__}: {err}\n".encode())
            os._exit(1)
        theirs.close()
        ends.append(mine)
        ranks[pid] = rank
    # All of them are groups of their own, which are killed whole, before the first runs the script.
    born = all([end.recv(16) == b"born\n" for end in ends])
    channel.send({"born": sorted(ranks, key=lambda pid: ranks[pid]), "cold": "" if born else "a worker could not be forked"})
    for rank, end in enumerate(ends):
        if rank == 1 and born:
            await_master(workers[0]["env"])
        if born:
            end.sendall(b"g")
        end.close()
    while ranks:
        pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid  # type: ignore[union-attr]
        if pid in ranks:
            kill_group(pid)  # whatever it has left; the number is its own until it is waited for
        _, status = os.waitpid(pid, 0)
        if pid in ranks:
            channel.send({"rank": ranks.pop(pid), "exit": status >> 8, "signal": status & 0x7F})


def observe(launcher: Any, message: Dict[str, Any]) -> None:
    """Have a worker observed, as sitecustomize does at the start of an interpreter."""
    sys.modules["sitecustomize"].start()


def await_master(env: Dict[str, str]) -> None:
    end = time.monotonic() + MASTER_BOUND_S
    while time.monotonic() < end:
        try:
            socket.create_connection((env["MASTER_ADDR"], int(env["MASTER_PORT"])), 0.1).close()
            return  # nothing was said
        except OSError:
            time.sleep(0.002)


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
