import os
import subprocess

ENV = os.environ.copy()
ENV["EXTRA"] = "1"


def ask(*names):
    return subprocess.run(["printenv", *names], env=ENV, stdout=subprocess.PIPE, text=True).stdout.split()
