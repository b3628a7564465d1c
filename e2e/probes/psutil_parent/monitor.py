import psutil

ME = psutil.Process()
PARENT = ME.parent()
CREATED = ME.create_time()
CPU = ME.cpu_percent()
