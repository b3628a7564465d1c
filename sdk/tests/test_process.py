"""Forked, spawned and re-executed processes; and the file itself."""

import ast
import os
import signal
import subprocess
import sys
import threading

import pytest

from conftest import MODULE, PATIENCE_S, PYTHON, script_environment


def in_child(call):
    """Fork, call in the child, and return what it printed to its pipe."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE_S)  # a child that hangs has failed
        try:
            os.write(writing, str(call()).encode())
        except BaseException as err:
            os.write(writing, repr(err).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as f:
        said = f.read()
    os.waitpid(pid, 0)
    return said


def test_a_forked_child_knows_its_samples_and_keeps_quiet(worker):
    bellows, shim = worker(rank=1, WORLD_SIZE=2)
    assert in_child(lambda: bellows.indices(0, 10)) == str(bellows.indices(0, 10))
    assert in_child(lambda: bellows.report(1)) == "None"
    for call in (lambda: bellows.should_stop(0), lambda: bellows.save(1, print)):
        assert "call it there" in in_child(call)
    # The parent is not disturbed, and nothing but its own message has come.
    bellows.report(7)
    assert shim.expect("progress")["step"] == 7


def test_a_child_forked_while_the_lock_is_held(worker):
    """The lock's holder does not exist in the child, so it would never be released."""
    bellows, _ = worker()
    link = bellows._run.link
    held, done = threading.Event(), threading.Event()

    def hold():
        with link._changed, link._sending, bellows._run._saving, bellows._run._reporting:
            held.set()
            done.wait(PATIENCE_S)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE_S)
    assert in_child(lambda: bellows.report(1)) == "None"
    assert in_child(bellows._run.flush) == "None"  # as a child does that exits like any other process
    assert "call it there" in in_child(lambda: bellows.should_stop(0))
    done.set()
    thread.join()


def test_a_forked_child_does_not_keep_the_connection_open(shim):
    """Or the shim would take a worker that died for one that does not answer."""
    script = "import bellows, os\nif os.fork() == 0: os.read(0, 1)\nos._exit(0)"
    environ = script_environment(BELLOWS_WORKER_SOCKET=shim.path)
    with subprocess.Popen([PYTHON, "-c", script], env=environ, stdin=subprocess.PIPE) as process:
        peer = shim.accept()
        peer.expect("hello")
        assert process.wait(PATIENCE_S) == 0
        assert peer.next() is None  # while the child lives, until our end of its input closes


def test_a_spawned_child_stays_off_the_socket(shim):
    script = (
        "import bellows, subprocess, sys\n"
        "child = 'import bellows; print(bellows.rank(), bellows._run.link); bellows.should_stop(0)'\n"
        "done = subprocess.run([sys.executable, '-c', child], capture_output=True, text=True)\n"
        "print(done.stdout, 'call it there' in done.stderr)\n"
    )
    out = subprocess.run(
        [PYTHON, "-c", script],
        env=script_environment(BELLOWS_WORKER_SOCKET=shim.path, RANK=2, WORLD_SIZE=4),
        stdout=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=True,
    ).stdout.decode()
    assert out.split() == ["2", "None", "True"]
    assert shim.accept().expect("hello")["rank"] == 2
    shim.server.setblocking(False)
    with pytest.raises(BlockingIOError):
        shim.accept()


def test_a_process_that_executes_itself_anew_connects_anew(shim):
    script = (
        "import bellows, os, sys\n"
        "if not os.environ.get('AGAIN'):\n"
        "    os.execve(sys.executable, [sys.executable, '-c', sys.argv[1], sys.argv[1]], dict(os.environ, AGAIN='1'))\n"
        "bellows.should_stop(0)\n"
    )
    environ = script_environment(BELLOWS_WORKER_SOCKET=shim.path)
    with subprocess.Popen([PYTHON, "-c", script, script], env=environ) as process:
        first, second = shim.accept(), shim.accept()
        assert first.expect("hello") == second.expect("hello")
        second.send({"welcome": {}})
        assert process.wait(PATIENCE_S) == 0
    assert first.next() is None


def test_a_forked_child_can_be_terminated(tmp_path):
    """As multiprocessing.Pool.terminate does, which waits for it afterwards."""
    script = (
        "import bellows, os, signal\n"
        "assert not bellows.should_stop(0)\n"
        "reading, writing = os.pipe()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os.write(writing, b'x')\n"
        "    signal.alarm(%d)\n"
        "    while True: signal.pause()\n"
        "os.read(reading, 1)\n"
        "os.kill(child, signal.SIGTERM)\n"
        "assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "assert bellows.should_stop(1)\n" % PATIENCE_S
    )
    subprocess.run([PYTHON, "-c", script], env=script_environment(), cwd=str(tmp_path), timeout=2 * PATIENCE_S, check=True)


def test_a_spawned_child_counts_as_its_parent_does(tmp_path):
    """Without Bellows, too, where only the script knows its batch size and what it resumed from."""
    child = (
        "import bellows, sys\n"
        "print(bellows.indices(int(sys.argv[1]), 1000, None))\n"
        "bellows.standalone(directory='elsewhere')\n"
        "print(bellows.resume(), bellows.position(0))\n"
    )
    script = (
        "import bellows, subprocess, sys\n"
        "bellows.standalone(batch_size=int(sys.argv[2]), directory='here')\n"
        "checkpoint = bellows.resume()\n"
        "step = checkpoint.step if checkpoint else 0\n"
        "for batch in bellows.Batches(step, step + 1, 1000, None): print(batch, flush=True)\n"
        "subprocess.run([sys.executable, '-c', sys.argv[1], str(step)], check=True)\n"
        "bellows.save(step + 2, lambda d: None)\n"
    )

    def run(batch):
        command = [PYTHON, "-c", script, child, str(batch)]
        done = subprocess.run(
            command, env=script_environment(), cwd=str(tmp_path), stdout=subprocess.PIPE, timeout=PATIENCE_S, check=True
        )
        return done.stdout.decode().splitlines()

    assert run(3) == ["[0, 1, 2]", "[0, 1, 2]", "None 0"]
    assert run(2) == ["[6, 7]", "[6, 7]", "None 0"]  # 6 samples were consumed, not 2 * 2


def test_the_file_is_for_python_3_8():
    with open(MODULE) as f:
        source = f.read()
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    known = getattr(sys, "stdlib_module_names", imported)
    assert imported <= set(known), "only the standard library"


def test_nothing_is_observed_unless_verify_asks(load, tmp_path):
    bellows = load()
    assert not hasattr(bellows.indices, "__wrapped__") and "bellows_verify" not in sys.modules
    # Nor without Bellows, where the variable means nothing.
    assert not hasattr(load(BELLOWS_VERIFY=tmp_path).indices, "__wrapped__")


def test_everything_is_typed_and_documented():
    with open(MODULE) as f:
        tree = ast.parse(f.read())
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            untyped = [a.arg for a in node.args.args if a.annotation is None and a.arg not in ("self", "cls")]
            assert node.returns is not None and not untyped, node.name


def test_mypy_agrees():
    pytest.importorskip("mypy")
    done = subprocess.run([PYTHON, "-m", "mypy", "--strict", MODULE], stdout=subprocess.PIPE, timeout=300)
    assert done.returncode == 0, done.stdout.decode()
