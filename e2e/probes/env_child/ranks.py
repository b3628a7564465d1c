import os
import subprocess

RANK = subprocess.run(["printenv", "RANK"], stdout=subprocess.PIPE, text=True).stdout.strip()
SHELL = subprocess.getoutput("echo ${LOCAL_RANK:-unset} of $WORLD_SIZE")
with os.popen("echo $MASTER_PORT | wc -w") as f:
    POPEN = f.read().strip()
STATUS = os.WEXITSTATUS(os.system('exit "${WORLD_SIZE:-9}"'))
