import os
import time
from datetime import datetime

ORIGINAL = os.getcwd()
STAMP = time.time()
FOLDER = os.path.join(ORIGINAL, "outputs", os.environ.get("RANK", "x"), datetime.now().strftime("%Y-%m-%d_%H-%M-%S.%f"))
os.makedirs(FOLDER)
os.chdir(FOLDER)
with open("overrides.yaml", "w") as f:
    f.write("world: %s\n" % os.environ.get("WORLD_SIZE"))
