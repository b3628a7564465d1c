import os
import socket
import time

RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
PORT = int(os.environ.get("MASTER_PORT", 0))
ADDRESS = (os.environ.get("MASTER_ADDR", "127.0.0.1"), PORT)
MET = []
if WORLD > 1 and RANK == 0:
    with socket.create_server(ADDRESS, backlog=8) as server:
        server.settimeout(20)
        peers = [server.accept()[0] for _ in range(WORLD - 1)]
    MET = sorted(int(p.recv(10)) for p in peers)
    for p in peers:
        p.sendall(repr(MET).encode())
elif WORLD > 1:
    while True:
        try:
            peer = socket.create_connection(ADDRESS, timeout=20)
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    peer.sendall(b"%d" % RANK)
    MET = eval(peer.recv(100).decode())
