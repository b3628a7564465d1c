"""The wheel that `pip install ./sdk` builds: it imports as workers' module does, and says its types."""

import ast
import base64
import csv
import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest
from conftest import MODULE

SDK = os.path.dirname(os.path.abspath(MODULE))


@pytest.fixture
def backend():
    spec = importlib.util.spec_from_file_location("backend", os.path.join(SDK, "wheel", "backend.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def wheel(backend, tmp_path):
    return str(tmp_path / backend.build_wheel(str(tmp_path)))


def run(line, env):
    return subprocess.run([sys.executable, "-B", "-c", line], env=env, cwd="/", stdout=subprocess.PIPE, check=True, text=True).stdout


def test_a_wheel_is_imported_like_the_module(wheel):
    line = "import bellows; print(bellows.__file__); print(bellows.indices(1, 100, None)); print(sorted(bellows.__all__) == sorted(set(bellows.__all__)))"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": wheel, "RANK": "3", "WORLD_SIZE": "4", "BELLOWS_BATCH_SIZE": "8"}
    assert run(line, env).splitlines() == [os.path.join(wheel, "bellows", "__init__.py"), "[14, 15]", "True"]


def test_workers_use_the_agents_module_and_not_an_installed_one(wheel):
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": SDK + os.pathsep + wheel}
    assert run("import bellows; print(bellows.__file__)", env).strip() == os.path.join(SDK, "bellows.py")


def test_what_is_recorded_is_what_is_there(wheel):
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        (record,) = [n for n in names if n.endswith("/RECORD")]
        rows = list(csv.reader(io.StringIO(z.read(record).decode())))
        assert sorted(r[0] for r in rows) == sorted(names) and "bellows/py.typed" in names
        for name, digest, size in rows:
            data = z.read(name)
            if name != record:
                want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, size) == ("sha256=" + want, str(len(data))), name
        with open(MODULE, "rb") as f:
            assert z.read("bellows/__init__.py") == f.read()


def test_sources_are_enough_to_build(backend, tmp_path):
    with tarfile.open(str(tmp_path / backend.build_sdist(str(tmp_path)))) as t:
        t.extractall(str(tmp_path))
    (unpacked,) = [p for p in tmp_path.iterdir() if p.is_dir()]
    line = "import sys; sys.path.insert(0, 'wheel'); import backend; print(backend.build_wheel('.'))"
    subprocess.run([sys.executable, "-B", "-c", line], cwd=str(unpacked), check=True, stdout=subprocess.DEVNULL)
    assert list(unpacked.glob("*.whl"))


def test_every_function_says_its_types():
    with open(MODULE, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    silent = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs + [a for a in (node.args.vararg, node.args.kwarg) if a]
            untyped = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
            if untyped or node.returns is None:
                silent.append((node.name, node.lineno))
    assert silent == []
