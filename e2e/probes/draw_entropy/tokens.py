import os
import random
import secrets
import uuid

URANDOM = os.urandom(8).hex()
GETRANDOM = os.getrandom(8).hex()
with open("/dev/urandom", "rb") as f:
    DEVICE = f.read(8).hex()
with open("/proc/sys/kernel/random/uuid") as f:
    KERNEL = f.read().strip()
TOKEN = secrets.token_hex(8)
UUID4 = uuid.uuid4().hex
SYSTEM = random.SystemRandom().getrandbits(64)
