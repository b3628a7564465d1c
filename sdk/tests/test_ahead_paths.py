"""What a script that runs ahead finds of files past os.path: it is compared before the release, or parks the script."""

import os
import socket
import subprocess
import sys

import pytest

SDK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BEGIN = """import sys
sys.path.insert(0, %r)
import early
sys.modules["bellows_early"] = sys.modules.pop("early")
import ahead
del sys.modules["ahead"]
ahead.begin(int(sys.argv[1]), %r, False)
exec(compile(open("script.py").read(), "script.py", "exec"), {"__name__": "__main__"})
""" % (os.path.abspath(SDK), os.path.abspath(SDK))


def message(s):
    data = b""
    while not data.endswith(b"\0\0"):
        more = s.recv(1 << 16)
        assert more, data
        data += more
    return data.decode()


def run(folder, line, changed):
    """Return where the script is parked, and what it says once something has changed."""
    (folder / "a").write_text("x")
    (folder / "script.py").write_text("import glob, os, pathlib\n%s\nos.environ['RANK']\n" % line)
    shim, own = socket.socketpair()
    with shim, subprocess.Popen([sys.executable, "-c", BEGIN, str(own.fileno())], pass_fds=[own.fileno()], cwd=str(folder)) as p:
        own.close()
        assert message(shim) == "hello\0\0"
        shim.sendall(b"planned=RANK\0\0")
        parked = ""
        while "parked" not in parked:
            parked = message(shim)
        changed(folder)
        shim.sendall(b"RANK=0\0\0")
        said = message(shim)
        p.kill()
    return parked, said


@pytest.mark.parametrize(
    "line",
    [
        "pathlib.Path('new').exists()", "pathlib.Path('new').is_file()", "pathlib.Path('a').stat()", "os.path.getsize('a')", "pathlib.Path('a').is_dir()",
        "list(pathlib.Path('.').iterdir())", "glob.glob('*')", "list(os.walk('.'))", "pathlib.Path('a').read_text()",
    ],
)  # fmt: skip
def test_what_was_found_is_compared(tmp_path, line):
    def changed(folder):
        (folder / "new").write_text("")
        (folder / "a").unlink()
        (folder / "a").mkdir()

    parked, said = run(tmp_path, line, changed)
    assert "reads RANK" in parked
    assert said.startswith("cold\0") and "has changed since it was read" in said
    other = tmp_path / "other"
    other.mkdir()
    assert run(other, line, lambda _: None)[1] == "ok\0\0"


@pytest.mark.parametrize("line", ["[e.stat() for e in os.scandir('.')]", "[e.is_dir() for e in os.scandir('.')]", "os.path.samefile('a', '.')", "os.stat('a')"])
def test_what_cannot_be_compared_parks(tmp_path, line):
    parked, _ = run(tmp_path, line, lambda _: None)
    assert "script.py:2" in parked
