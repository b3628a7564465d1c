import json
import socket
import time

TEXT = json.dumps({"classes": {"b", "a"}})
STAMP = time.time()
HOST = socket.getfqdn()
