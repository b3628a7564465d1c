#!/usr/bin/env python3
"""JAX, many processes, one program: a small network learns two spirals.

    python3 examples/jax_spmd.py --steps 200                      # by itself, one process
    bellows run --min 1 --max 8 -- python3 examples/jax_spmd.py   # elastic, a process for each device
    bellows verify --sizes 4,2,4 --batch-size 64 -- python3 examples/jax_spmd.py
    bellows run --process per-node -- python3 examples/jax_spmd.py   # a process for each node, with all its devices

It needs jax (0.4.31 or later: pip install jax, or jax[cuda13] for GPUs). The
lines that make it elastic are marked with `# elastic`. The global batch is one
array that lies on all devices of the world; XLA adds what it takes to sum over
them. Numbers are of double precision, so that the losses of runs with different
numbers of workers can be compared.
"""

import argparse
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

# For runs without Bellows, from a checkout; Bellows puts its own first.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows

WIDTHS = (2, 64, 64, 1)


def spirals(count):
    """Return points of two spirals, one inside the other, and which each is of."""
    rng = np.random.default_rng(7)
    which = rng.integers(2, size=count)
    angle = 3 * np.pi * np.sqrt(rng.random(count))
    radius = angle / (3 * np.pi)
    points = np.stack([radius * np.cos(angle + np.pi * which), radius * np.sin(angle + np.pi * which)], axis=1)
    return points + 0.02 * rng.standard_normal(points.shape), which.astype(np.float64)


def network():
    rng = np.random.default_rng(1)
    return [
        {"w": rng.standard_normal((n, m)) * np.sqrt(2 / n), "b": np.zeros(m)}
        for n, m in zip(WIDTHS[:-1], WIDTHS[1:])
    ]  # fmt: skip


def loss_of(layers, points, which):
    x = points
    for layer in layers[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    x = (x @ layers[-1]["w"] + layers[-1]["b"])[:, 0]
    return jnp.mean(jax.nn.softplus(x) - which * x)


def main():
    parser = argparse.ArgumentParser(description="learn two spirals")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=8192, help="size of the data set")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--save-every", type=int, default=500)
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()
    bellows.standalone(directory="checkpoints/jax_spmd")  # elastic
    jax.config.update("jax_enable_x64", True)

    rank, world = bellows.rank(), bellows.world_size()
    bellows.jax_initialize()  # elastic
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

    points, which = spirals(args.samples)
    state = {"layers": network(), "speed": jax.tree.map(np.zeros_like, network())}
    state, step = bellows.jax_load(state)  # elastic
    state = jax.tree.map(lambda x: jax.make_array_from_process_local_data(everywhere, np.asarray(x)), state)

    @jax.jit
    def train(state, points, which):
        loss, slope = jax.value_and_grad(loss_of)(state["layers"], points, which)
        speed = jax.tree.map(lambda v, g: 0.9 * v - args.rate * g, state["speed"], slope)
        return {"layers": jax.tree.map(jnp.add, state["layers"], speed), "speed": speed}, loss

    if rank == 0:
        print("step %d: begin with %d processes, %d devices" % (step, world, jax.device_count()), flush=True)
    while step < args.steps and not bellows.should_stop(step):  # elastic
        mine = bellows.indices(step, args.samples)  # elastic
        batch = [jax.make_array_from_process_local_data(split, x[mine]) for x in (points, which)]
        state, loss = train(state, *batch)
        step += 1
        bellows.report(step, loss=loss)  # it is looked at once a second
        if step % args.log_every == 0 or step == args.steps:
            if rank == 0:
                print("step %d: loss %.6f" % (step, float(loss)), flush=True)
        if step % args.save_every == 0:
            bellows.jax_save(step, state)
    jax.block_until_ready(state)
    bellows.jax_save(step, state)  # elastic
    if rank == 0:
        print("step %d: end" % step, flush=True)
    if world > 1:
        jax.distributed.shutdown()


if __name__ == "__main__":
    main()
