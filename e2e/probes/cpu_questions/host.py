import os

CPUS = os.cpu_count()
