"""What a launcher does before it forks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import ctypes, launcher, mmap, sys
area = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
for page in range(0, int(sys.argv[1]) << 20, mmap.PAGESIZE):
    area[page] = 1
def counted(name):
    inside = False
    for line in open("/proc/self/smaps"):
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            first, end = (int(a, 16) for a in words[0].split("-"))
            inside = first <= start < end
        elif inside and words[0] == name:
            return int(words[1])
before = counted("Rss:")
launcher.share_memory()
print(counted("Rss:") - before, counted("AnonHugePages:"))
"""


def shared(written_mib: int) -> "tuple[int, int]":
    """Return by how much an area grew, and how much of it is in huge pages, in KiB; of 16 MiB as many were written."""
    directory = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(written_mib)], cwd=directory, stdout=subprocess.PIPE, universal_newlines=True, check=True
    )
    grown, huge = done.stdout.split()
    return int(grown), int(huge)


def test_memory_is_joined_into_huge_pages() -> None:
    grown, huge = shared(16)
    if huge == 0 and tuple(int(n) for n in os.uname().release.split(".")[:2]) < (6, 1):
        pytest.skip("this kernel cannot join pages")
    assert grown < 64
    assert huge >= 12 << 10


def test_what_is_not_in_memory_is_left_alone() -> None:
    grown, huge = shared(4)
    assert grown < 64
    assert huge <= 4 << 10


def test_a_kernel_that_does_not_tell_of_pages() -> None:
    script = "import builtins, gc, launcher; real = builtins.open\ndef opens(path, *a, **k):\n    if 'pagemap' in path: raise PermissionError(path)\n    return real(path, *a, **k)\nbuiltins.open = opens; launcher.share_memory(); print(gc.get_freeze_count() > 0)"
    directory = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", script], cwd=directory, stdout=subprocess.PIPE, universal_newlines=True, check=True)
    assert done.stdout == "True\n"
