#!/usr/bin/env python3
"""JAX, many processes, one program: a small model with a cosine schedule.

    python3 examples/jax_spmd.py --steps 200                      # by itself, one process
    bellows run --min 1 --max 8 -- python3 examples/jax_spmd.py   # elastic, a process for each device
    bellows verify --sizes 4,2,4 --batch-size 64 -- python3 examples/jax_spmd.py
    bellows run --process per-node -- python3 examples/jax_spmd.py   # a process for each node, with all its devices

It needs jax (0.4.31 or later: pip install jax, or jax[cuda13] for GPUs). `--model`
chooses one of three: mlp, transformer or cnn; with `--sharded` each device holds a part of what is learnt, where it can be cut evenly.
The lines that make it elastic are marked with `# elastic`. The global batch is one
array that lies on all devices of the world; XLA adds what it takes to sum over
them. Numbers are of double precision, so that the losses of runs with different
numbers of workers can be compared.
"""

import argparse
import functools
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

# For runs without Bellows, from a checkout; Bellows puts its own first.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows
import jax_small


def main():
    parser = argparse.ArgumentParser(description="learn how far points lie in ten directions")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--schedule", type=int, help="in how many steps the rate falls to nothing; default: --steps")
    parser.add_argument("--samples", type=int, default=8192, help="size of the data set")
    parser.add_argument("--model", choices=jax_small.MODELS, default="mlp")
    parser.add_argument("--sharded", action="store_true")
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--save-every", type=int, default=500)
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()
    bellows.standalone(directory="checkpoints/jax_spmd")
    jax.config.update("jax_enable_x64", True)

    rank, world = bellows.rank(), bellows.world_size()
    bellows.jax_initialize()  # elastic
    mesh = Mesh(jax.devices(), ("data",))
    everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

    points, which = jax_small.data(args.samples)
    net, kept = jax_small.network(args.model)
    state = {"net": net, "kept": kept, "speed": jax.tree.map(np.zeros_like, net)}
    state, step = bellows.jax_load(state)  # elastic

    def placed(x):
        where = split if args.sharded and x.ndim and x.shape[0] % jax.device_count() == 0 else everywhere
        return jax.make_array_from_callback(x.shape, where, lambda part: x[part])

    state = jax.tree.map(placed, state)

    @functools.partial(jax.jit, out_shardings=(jax.tree.map(lambda x: x.sharding, state), None))
    def train(state, step, points, which):
        def loss_of(net):
            key = jax.random.fold_in(jax.random.key(1), step)  # the same on all ranks: masks are drawn for the whole batch
            found, kept = jax_small.apply(args.model, net, state["kept"], key, points)
            return jnp.mean((found - which) ** 2), kept

        (loss, kept), slope = jax.value_and_grad(loss_of, has_aux=True)(state["net"])
        rate = args.rate * (1 + jnp.cos(jnp.pi * step / (args.schedule or args.steps))) / 2
        speed = jax.tree.map(lambda v, g: 0.9 * v - rate * g, state["speed"], slope)
        return {"net": jax.tree.map(jnp.add, state["net"], speed), "kept": kept, "speed": speed}, loss

    if rank == 0:
        print("step %d: begin with %d processes, %d devices" % (step, world, jax.device_count()), flush=True)
    while step < args.steps and not bellows.should_stop(step):  # elastic
        mine = bellows.indices(step, args.samples)  # elastic
        batch = [jax.make_array_from_process_local_data(split, x[mine]) for x in (points, which)]
        state, loss = train(state, step, *batch)
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
