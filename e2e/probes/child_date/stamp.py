import subprocess

DATE = float(subprocess.check_output(["date", "+%s.%N"]))
PARENT = int(subprocess.check_output("echo $PPID", shell=True))
RANDOM = subprocess.check_output(["cat", "/proc/sys/kernel/random/uuid"], text=True).strip()
