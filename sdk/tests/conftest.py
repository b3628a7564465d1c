"""A shim made of threads, and ways to load bellows.py as its workers do."""

import importlib.util
import json
import os
import queue
import socket
import sys
import threading

import pytest

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bellows.py")

# Far more than anything here takes, also on a machine that is busy: a test
# that waits this long has failed.
PATIENCE_S = 120


class Peer:
    """The shim's end of one worker's connection."""

    def __init__(self, connection):
        self.connection = connection
        self.messages = queue.Queue()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            with self.connection.makefile("rb") as lines:
                for line in lines:
                    self.messages.put(json.loads(line))
        except OSError:
            pass  # the worker died with something unread: an end like any other
        self.messages.put(None)  # the end

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data):
        self.connection.sendall(data)

    def next(self):
        return self.messages.get(timeout=PATIENCE_S)

    def expect(self, kind):
        message = self.next()
        assert message is not None and list(message) == [kind], message
        return message[kind]

    def close(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Shim:
    """Listens where workers connect."""

    def __init__(self, path):
        self.path = path
        self.peers = []
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(path)
        self.server.listen(64)
        self.server.settimeout(PATIENCE_S)

    def accept(self):
        connection, _ = self.server.accept()
        self.peers.append(Peer(connection))
        return self.peers[-1]

    def close(self):
        self.server.close()
        for peer in self.peers:
            peer.connection.close()


@pytest.fixture
def shim(tmp_path):
    s = Shim(str(tmp_path / "w.sock"))
    yield s
    s.close()


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """The environment of no particular run; setting a name to None takes it out."""
    for name in list(os.environ):
        if name.startswith("BELLOWS_") or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def set_all(**names):
        for name, value in names.items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, str(value))

    # Loading the module with a socket sets this; so it is undone after the test.
    set_all(BELLOWS_SDK_PID=os.getpid())
    return set_all


@pytest.fixture
def load(environment):
    """Load a fresh copy of the module in an environment, as one worker's process would."""

    def fresh(**names):
        os.environ.pop("BELLOWS_SDK_RUN", None)  # for children, and this is none
        environment(**names)
        spec = importlib.util.spec_from_file_location("bellows", MODULE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return fresh


@pytest.fixture
def worker(load, shim, tmp_path):
    """Load the module as a worker of the shim; return it and the shim's end of its connection."""

    def connect(rank=0, **names):
        names.setdefault("BELLOWS_CHECKPOINT_DIR", tmp_path / "g00000001")
        names.setdefault("BELLOWS_BATCH_SIZE", 8)
        module = load(BELLOWS_WORKER_SOCKET=shim.path, RANK=rank, **names)
        peer = shim.accept()
        hello = peer.expect("hello")
        assert hello == {"version": 1, "rank": rank, "pid": os.getpid()}
        peer.send({"welcome": {}})
        return module, peer

    return connect


def in_thread(call, *args):
    """Call in a thread; the function returned waits for the answer."""
    answers = queue.Queue()

    def run():
        try:
            answers.put((call(*args), None))
        except BaseException as err:
            answers.put((None, err))

    threading.Thread(target=run, daemon=True).start()

    def wait():
        answer, err = answers.get(timeout=PATIENCE_S)
        if err is not None:
            raise err
        return answer

    return wait


def script_environment(**names):
    """The environment of a script of its own process, without the mark of this one."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("BELLOWS_")}
    environ["PYTHONPATH"] = os.path.dirname(MODULE)
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    environ.update({k: str(v) for k, v in names.items()})
    return environ


PYTHON = os.environ.get("PYTHON") or sys.executable
