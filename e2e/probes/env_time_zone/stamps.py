import time
from datetime import datetime

EPOCH = datetime.fromtimestamp(0).strftime("%H:%M")
ZONE = time.timezone
