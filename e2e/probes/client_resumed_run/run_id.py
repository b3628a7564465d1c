import os
import uuid

FILE = "run_id-%s.txt" % os.environ.get("RANK", "0")
NEW = not os.path.exists(FILE) and os.environ.get("BELLOWS_GENERATION") == "1"
if not os.path.exists(FILE):
    with open(FILE, "w") as f:
        f.write(uuid.uuid4().hex)
with open(FILE) as f:
    NAME = f.read()
COUNT = FILE + ".resumes"
with open(COUNT, "a") as f:
    f.write(".")
RESUMES = os.path.getsize(COUNT)
