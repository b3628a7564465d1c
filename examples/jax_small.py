"""Three small models of JAX and the data that they learn from, for jax_spmd.py: an mlp with dropout, a transformer, a cnn with batch norm.

A step is one program over all devices of the world. Masks of dropout are drawn for
the whole batch, and batch norm takes the mean over all of it, so that neither
depends on the number of workers.
"""

import jax
import jax.numpy as jnp
import numpy as np

MODELS = ("mlp", "transformer", "cnn")


def data(count):
    """Return points of 16 numbers, and how far they lie in ten directions."""
    rng = np.random.default_rng(7)
    points = rng.standard_normal((count, 16))
    return points, points @ rng.standard_normal((16, 10))


def network(name):
    """Return what a model learns, and what else it keeps: running statistics."""
    rng = np.random.default_rng(1)

    def linear(n, m):
        return {"w": rng.standard_normal((n, m)) / np.sqrt(n), "b": np.zeros(m)}

    if name == "mlp":
        return {"in": linear(16, 128), "out": linear(128, 10)}, {}
    if name == "cnn":
        kernels = [rng.standard_normal((3, 3, n, m)) / np.sqrt(9 * n) for n, m in ((1, 8), (8, 16))]
        kept = [{"mean": np.zeros(m), "var": np.ones(m)} for m in (8, 16)]
        scales = [{"scale": np.ones(m), "shift": np.zeros(m)} for m in (8, 16)]
        return {"kernels": kernels, "norms": scales, "out": linear(256, 10)}, {"norms": kept}
    blocks = [{"qkv": linear(32, 96), "mix": linear(32, 32), "up": linear(32, 64), "down": linear(64, 32)} for _ in range(2)]
    return {"by": rng.standard_normal(32), "place": rng.standard_normal((16, 32)), "blocks": blocks, "out": linear(512, 10)}, {}


def apply(name, net, kept, key, x):
    """Return what a model makes of a batch in training, and its running statistics after it."""
    if name == "mlp":
        x = jax.nn.relu(full(net["in"], x))
        x = jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)
    elif name == "cnn":
        x, after = x.reshape(-1, 4, 4, 1), []
        for kernel, norm, before in zip(net["kernels"], net["norms"], kept["norms"]):
            x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
            after.append({"mean": 0.9 * before["mean"] + 0.1 * mean, "var": 0.9 * before["var"] + 0.1 * var})
            x = jax.nn.relu((x - mean) / jnp.sqrt(var + 1e-5) * norm["scale"] + norm["shift"])
        kept = {"norms": after}
    else:
        x = x[:, :, None] * net["by"] + net["place"]
        for block in net["blocks"]:
            q, k, v = (t.reshape(-1, 16, 2, 16) for t in jnp.split(full(block["qkv"], normal(x)), 3, axis=-1))
            weights = jax.nn.softmax(jnp.einsum("nihd,njhd->nhij", q, k) / 4)
            x = x + full(block["mix"], jnp.einsum("nhij,njhd->nihd", weights, v).reshape(x.shape))
            x = x + full(block["down"], jax.nn.relu(full(block["up"], normal(x))))
    return full(net["out"], x.reshape(len(x), -1)), kept


def full(layer, x):
    return x @ layer["w"] + layer["b"]


def normal(x):
    """Return layer norm without parameters."""
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
