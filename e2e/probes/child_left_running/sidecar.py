import atexit
import os
import subprocess

PROCESS = subprocess.Popen(["sh", "-c", "while read name; do eval echo \\$$name; done"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
atexit.register(PROCESS.kill)


def ask():
    PROCESS.stdin.write("RANK\n")
    PROCESS.stdin.flush()
    return PROCESS.stdout.readline().strip()
