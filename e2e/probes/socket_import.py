"""Sockets that a module opens at its import: a listening one, a pair, a selector."""
import server
import json
import os
import selectors
import signal
import socket
import time

client = socket.create_connection(server.SERVER.getsockname(), timeout=5)
server.SERVER.settimeout(5)
peer, _ = server.SERVER.accept()
client.sendall(os.environ["RANK"].encode())
got = peer.recv(10).decode()
server.LEFT.sendall(b"rank " + os.environ["RANK"].encode())
ready = server.SELECTOR.select(5)
time.sleep(0.2)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "over-tcp", got)
say("FACT", "over-pair", server.RIGHT.recv(100).decode())
say("FACT", "ready", len(ready))
say("DRAW", "port", [server.SERVER.getsockname()[1], os.environ["BELLOWS_GENERATION"]])
say("FACT", "udp", server.UDP.getsockname()[0])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
