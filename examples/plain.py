#!/usr/bin/env python3
"""A training script that knows nothing of Bellows and can be rescaled all the same.

    python3 examples/plain.py                                  # by itself, 20 to 30 seconds
    bellows run --min 1 --max 8 -- python3 examples/plain.py   # elastic, faster with more workers

It needs Python alone. It fits a classifier to two noisy spirals by data-parallel
gradient descent, with a sum over all workers in place of a communication
library. What makes it elastic is plain files and a signal:

1. It begins with what lies in $BELLOWS_RESUME_FROM, if that is set.
2. Rank 0 saves into $BELLOWS_CHECKPOINT_DIR/step-<N>/ and, when all is written,
   creates COMPLETE there.
3. After SIGTERM, all ranks end after the same step, rank 0 saves, and all exit
   with status 0. A signal reaches each rank at another moment, so the ranks sum
   up "I was told to stop" along with their gradients.
4. A step takes the same samples whatever the number of workers.
"""

import argparse
import array
import json
import math
import os
import random
import signal
import socket
import time

RANK = int(os.environ.get("RANK") or 0)
WORLD_SIZE = int(os.environ.get("WORLD_SIZE") or 1)
BATCH_SIZE = int(os.environ.get("BELLOWS_BATCH_SIZE") or 256)
CHECKPOINTS = os.environ.get("BELLOWS_CHECKPOINT_DIR") or "checkpoints/plain"
RESUME_FROM = os.environ.get("BELLOWS_RESUME_FROM") or ""

SAMPLES, FEATURES, LEARNING_RATE = 4096, 96, 2.0


class Sum:
    """Adds up vectors over all ranks: everybody sends theirs to rank 0 and gets the sum back."""

    def __init__(self):
        self.peers = []
        if WORLD_SIZE == 1:
            return
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if RANK == 0:
            family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]  # IPv4 or IPv6
            with socket.create_server(address, family=family, backlog=WORLD_SIZE) as server:
                server.settimeout(60)
                self.peers = [server.accept()[0] for _ in range(WORLD_SIZE - 1)]
        else:
            self.peers = [self.connect(address)]
        for peer in self.peers:
            peer.settimeout(60)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @staticmethod
    def connect(address):
        deadline = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection(address, timeout=60)
            except ConnectionRefusedError:  # rank 0 is not there yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def __call__(self, vector):
        mine = array.array("d", vector)
        if RANK != 0:
            self.peers[0].sendall(mine.tobytes())
            return self.receive(self.peers[0], len(mine))
        for peer in self.peers:
            mine = array.array("d", map(float.__add__, mine, self.receive(peer, len(mine))))
        for peer in self.peers:
            peer.sendall(mine.tobytes())
        return mine

    @staticmethod
    def receive(peer, length):
        data = bytearray()
        while len(data) < 8 * length:
            part = peer.recv(8 * length - len(data))
            if not part:
                raise ConnectionError("another rank has gone")
            data += part
        return array.array("d", bytes(data))


def spirals():
    """Return points of two spirals, as random Fourier features, with the spiral of each."""
    rng = random.Random(7)
    waves = [(rng.gauss(0, 2), rng.gauss(0, 2), rng.uniform(0, 2 * math.pi)) for _ in range(FEATURES)]
    points = []
    for i in range(SAMPLES):
        label = i % 2
        turn = 3.5 * math.pi * math.sqrt(rng.random())
        x = turn / 5 * math.cos(turn + label * math.pi) + rng.gauss(0, 0.05)
        y = turn / 5 * math.sin(turn + label * math.pi) + rng.gauss(0, 0.05)
        points.append(([math.cos(a * x + b * y + c) / 4 for a, b, c in waves], label))
    rng.shuffle(points)
    return points


def gradient(weights, samples):
    """Return the sums of the gradient and of the loss over some samples."""
    total, loss = [0.0] * FEATURES, 0.0
    for features, label in samples:
        z = max(-30.0, min(30.0, sum(map(float.__mul__, weights, features))))
        p = 1 / (1 + math.exp(-z))
        loss -= math.log(p if label else 1 - p)
        error = p - label
        total = [t + error * f for t, f in zip(total, features)]
    return total, loss


def save(step, position, weights):
    directory = os.path.join(CHECKPOINTS, "step-%d" % step)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "state.json"), "w") as f:
        json.dump({"step": step, "position": position, "weights": weights}, f)
    with open(os.path.join(directory, "COMPLETE"), "w") as f:
        f.write(f"samples={position}\n")  # optional: lets `bellows show` say so


def main():
    parser = argparse.ArgumentParser(description="fit two spirals")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--save-every", type=int, default=1000)
    args = parser.parse_args()

    told_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.append(True))

    data = spirals()
    step, position, weights = 0, 0, [0.0] * FEATURES
    if RESUME_FROM:
        with open(os.path.join(RESUME_FROM, "state.json")) as f:
            state = json.load(f)
        step, position, weights = state["step"], state["position"], state["weights"]
    total = Sum()
    if RANK == 0:
        print("step %d: begin with %d workers" % (step, WORLD_SIZE), flush=True)

    saved = step
    while step < args.steps:
        # This rank's part of the global batch: positions count on for ever, over and over the data.
        first, last = BATCH_SIZE * RANK // WORLD_SIZE, BATCH_SIZE * (RANK + 1) // WORLD_SIZE
        mine = [data[(position + i) % SAMPLES] for i in range(first, last)]
        vector, loss = gradient(weights, mine)
        *vector, loss, stop = total(vector + [loss, float(bool(told_to_stop))])
        weights = [w - LEARNING_RATE * g / BATCH_SIZE for w, g in zip(weights, vector)]
        step, position = step + 1, position + BATCH_SIZE

        if RANK == 0 and step % 100 == 0:
            print("step %d: loss %.6f" % (step, loss / BATCH_SIZE), flush=True)
        if RANK == 0 and (stop or step % args.save_every == 0 or step == args.steps):
            save(step, position, weights)
            saved = step
        if stop:
            break
    if RANK == 0:
        print("step %d: end, saved step %d" % (step, saved), flush=True)


if __name__ == "__main__":
    main()
