"""That a script which runs ahead has no effect that anyone can see before its release: the kernel's calls, as strace shows them."""

import os
import re
import shutil
import subprocess

import pytest
from test_ahead import RANK, SDK, Ahead

EXAMPLES = os.path.join(SDK, "..", "examples")
PYTHON = "/usr/bin/python3"
# Calls that change something outside of the process, or reach out of it.
EFFECTS = re.compile(
    r"^\d+ +(creat|mkdir|mkdirat|mknod|mknodat|rename|renameat|renameat2|unlink|unlinkat|rmdir|link|linkat|symlink|symlinkat|chmod|fchmod|fchmodat|chown|fchown|lchown"
    r"|fchownat|truncate|ftruncate|fallocate|utimensat|utime|utimes|setxattr|removexattr|flock|connect|bind|listen|sendto|sendmsg|sendmmsg|fork|vfork|kill|tkill|execveat"
    r"|mount|ptrace|shmget|semget|msgget|mq_open|memfd_create)\("
)


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def seen(lines, speaks):
    """Yield the calls that had an effect, but for words to the shim and what was printed."""
    for line in lines:
        call = re.sub(r"^\d+ +", "", line)
        if EFFECTS.match(line) and not re.search(r" = -1 ", line):
            yield line
        elif call.startswith(("open(", "openat(")) and re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", call) and '"/dev/null"' not in call and " = -1 " not in call:
            yield line
        elif call.startswith(("clone(", "clone3(")) and "CLONE_THREAD" not in call:
            yield line
        elif call.startswith(("write(", "writev(", "pwrite64(")) and not re.match(r"\w+\((1|2|%d)," % speaks, call):
            yield line


@pytest.mark.skipif(not shutil.which("strace") or not os.path.exists(PYTHON), reason="needs strace and the system's Python: scripts/setup test installs them")
@pytest.mark.parametrize("example", ["plain.py", "sdk_minimal.py", "pytorch_ddp.py", "ddp_batch.py", "small.py", "what strace sees"])
def test_nothing_is_changed_before_the_release(tmp_path, example):
    if example == "what strace sees":  # else a log that shows nothing would prove something
        (tmp_path / "train.py").write_text("import os\nos.environ['RANK']\nopen('x', 'w').write('x')\nos.system('true')\n")
    else:
        source = open(os.path.join(EXAMPLES, example)).read()
        if re.search(r"^(import|from) torch", source, re.M) and not has_torch():
            pytest.skip("Debian's torch is not installed")
        (tmp_path / "train.py").write_text(source)
    log = tmp_path / "strace.log"
    # With --seccomp-bpf only these calls are stopped at.
    traced = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", str(log), "-e", "trace=file,network,process,write,writev,pwrite64,ftruncate,fallocate,flock,ipc,memfd_create", "-s", "64", PYTHON]
    (tmp_path / "modules").mkdir()
    ahead = Ahead(traced, tmp_path)
    at, why = ahead.at()
    before = log.read_text().splitlines()
    # What comes before is Python's own start, which compiles Bellows's modules in the run's folder.
    began = next(i for i, line in enumerate(before) if 'write(%d, "hello' % ahead.theirs in line)
    assert len(before) > began + 50 and list(seen(before[began:], ahead.theirs)) == []
    if example != "what strace sees":
        print(example, at, why)
        ahead.kill()
        return
    assert why == RANK and ahead.release() is None and ahead.ended()[0] == 0
    after = "\n".join(seen(log.read_text().splitlines()[len(before) :], ahead.theirs))
    assert '"x"' in after and re.search(r"fork\(|clone3?\(", after)
