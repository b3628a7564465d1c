import os

WHERE = os.path.abspath("")
