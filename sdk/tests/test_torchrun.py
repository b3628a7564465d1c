"""``python3 -m bellows`` is torchrun with the numbers of this node. See make examples for torch's own."""

import os
import subprocess

import pytest

from conftest import PATIENCE_S, PYTHON

HERE = os.path.dirname(os.path.abspath(__file__))

RUN = """
import os, sys
from torch.distributed.elastic.multiprocessing.api import SignalException
def main(args):
    print(" ".join(args), flush=True)
    print("RANK" in os.environ, os.environ["MASTER_ADDR"], flush=True)
    if "told" in args:
        raise SignalException("Process 1 got signal: 15", 15)
"""
API = """
import signal
class SignalException(Exception):
    def __init__(self, msg, sigval):
        super().__init__(msg)
        self.sigval = signal.Signals(sigval)
"""


@pytest.fixture
def torchrun(tmp_path):
    for name, text in {
        "__init__.py": "",
        "distributed/__init__.py": "",
        "distributed/run.py": RUN,
        "distributed/elastic/__init__.py": "",
        "distributed/elastic/multiprocessing/__init__.py": "",
        "distributed/elastic/multiprocessing/api.py": API,
    }.items():
        path = tmp_path / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environ = {n: v for n, v in os.environ.items() if not n.startswith("BELLOWS_")}
    environ.update(
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.path.dirname(HERE)]),
        **{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.3", "MASTER_PORT": "29517", "BELLOWS_LOCAL_DEVICES": "4"},
    )

    def run(*args):
        return subprocess.run(
            [PYTHON, "-m", "bellows", *args], env=environ, cwd=tmp_path, timeout=PATIENCE_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
        )

    return run


def test_torchrun_has_this_nodes_numbers(torchrun):
    ended = torchrun("train.py", "--lr", "0.1")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "--nnodes 2 --node_rank 1 --master_addr 10.0.0.3 --master_port 29517 --nproc_per_node 4 train.py --lr 0.1",
        "False 10.0.0.3",
    ]


def test_torchrun_that_is_told_to_end_says_so_in_one_line(torchrun):
    ended = torchrun("told")
    assert ended.returncode == 143
    assert ended.stderr == "bellows: torchrun and its workers have ended of SIGTERM\n"
