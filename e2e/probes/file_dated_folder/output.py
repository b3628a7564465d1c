import os
from datetime import datetime

NOW = datetime.now()
FOLDER = os.path.join("outputs", NOW.strftime("%Y-%m-%d"), NOW.strftime("%H-%M-%S-%f"))
os.makedirs(FOLDER, exist_ok=True)
