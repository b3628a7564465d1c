"""What Python imports at its start under `bellows verify`."""

import os
import shutil
import subprocess

import pytest

from conftest import PYTHON, script_environment

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "verify_site.py")
LOADED = "import sys; print(*sorted(sys.modules))"


def run(tmp_path, path, code, *options, **names):
    environ = script_environment(**{"BELLOWS_VERIFY": tmp_path, **names})
    environ["PYTHONPATH"] = ":".join(str(p) for p in path)
    done = subprocess.run([PYTHON, *options, "-c", code], env=environ, cwd=str(tmp_path), stdout=subprocess.PIPE, check=True, timeout=120)
    return done.stdout.decode().split()


@pytest.fixture
def site(tmp_path):
    """Make a folder as `bellows verify` does, with a module that says that it is imported in the place of bellows."""
    folder = tmp_path / "own"
    folder.mkdir()
    shutil.copy(SITE, str(folder / "sitecustomize.py"))
    (folder / "bellows.py").write_text("import sys; print('bellows', 'torch' in sys.modules)")
    return folder


@pytest.mark.parametrize("options", [(), ("-s",)])
def test_it_imports_nothing_else(tmp_path, site, options):
    empty = tmp_path / "empty"
    empty.mkdir()
    without = run(tmp_path, [empty], LOADED, *options)
    assert set(run(tmp_path, [site], LOADED, *options)) - set(without) <= {"sitecustomize"}


@pytest.mark.parametrize(
    "names, seen",
    [({}, ["bellows", "True", "done"]), ({"BELLOWS_SDK_PID": 1}, ["done"]), ({"BELLOWS_VERIFY": ""}, ["done"])],
)
def test_the_module_follows_torch_in_the_process_that_trains(tmp_path, site, names, seen):
    other = tmp_path / "other"
    other.mkdir()
    (other / "torch.py").write_text("import sys; assert 'bellows' not in sys.modules")
    assert run(tmp_path, [site, other], "import json, torch; print('done')", **names) == seen


def test_a_package_may_import_torch_before_it(tmp_path, site):
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "torch.py").write_text("")
    (packages / "early.pth").write_text("import torch\n")
    # As site does for site-packages, and then it imports sitecustomize.
    code = f"import site, sys; site.addsitedir({str(packages)!r}); sys.path.insert(0, {str(site)!r}); import sitecustomize"
    assert run(tmp_path, [tmp_path], code, "-S") == ["bellows", "True"]


def test_another_sitecustomize_is_run(tmp_path, site):
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("print('other')")
    assert run(tmp_path, [site, other], "print('done')") == ["other", "done"]
