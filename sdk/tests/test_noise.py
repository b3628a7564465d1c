"""What a batch is worth: the gradient noise scale against a known answer, and how it is told."""

from __future__ import annotations

import json
import random

import pytest


def updated(bellows, noise, scale, parts, seed, steps=400, batch=64, size=40):
    """Feed gradients of samples whose noise scale is known: of mean norm 1, and variance ``scale`` over all dimensions."""
    draw = random.Random(seed)
    mean = size**-0.5
    for _ in range(steps):
        spread = (scale / size * parts / batch) ** 0.5  # of a part's mean gradient, in each dimension
        gradients = [[draw.gauss(mean, spread) for _ in range(size)] for _ in range(parts)]
        whole = [sum(g[i] for g in gradients) / parts for i in range(size)]
        small = sum(sum(x * x for x in g) for g in gradients) / parts
        noise.update(small, sum(x * x for x in whole), parts, batch=batch)
    return noise.scale


@pytest.mark.parametrize("scale", [8.0, 64.0, 500.0])
@pytest.mark.parametrize("parts", [2, 8])
def test_the_scale_of_known_noise_is_found(load, scale, parts):
    bellows = load()
    found = updated(bellows, bellows.GradientNoise(steps=400), scale, parts, seed=1)
    assert found == pytest.approx(scale, rel=0.25)


def test_nothing_is_told_before_it_means_something(load):
    bellows = load()
    noise = bellows.GradientNoise()
    assert noise.scale is None
    noise.update(2.0, 1.0, 2, batch=8)
    assert noise.scale is None  # one step says little
    for _ in range(20):
        noise.update(2.0, 1.5, 2, batch=8)
    assert noise.scale == pytest.approx(8 * 0.5 / 1.0, rel=0.3)
    agreeing = bellows.GradientNoise()
    for _ in range(50):
        agreeing.update(1.0, 1.0, 2, batch=8)
    assert agreeing.scale is None  # no noise at all: there is no scale above zero


def test_norms_that_are_not_finite_are_left_out(load):
    bellows = load()
    noise = bellows.GradientNoise(steps=400)
    for bad in (float("nan"), float("inf")):
        noise.update(bad, 1.0, 2, batch=64)
        noise.update(1.0, bad, 2, batch=64)
    assert updated(bellows, noise, 64.0, 8, seed=2) == pytest.approx(64, rel=0.25)


def test_the_scale_goes_on_from_a_checkpoint(load):
    bellows = load()
    whole, first, second = (bellows.GradientNoise(steps=50) for _ in range(3))
    norms = [(2.0 + i % 3, 1.0 + i % 2) for i in range(40)]
    for small, big in norms:
        whole.update(small, big, 4, batch=64)
    for small, big in norms[:20]:
        first.update(small, big, 4, batch=64)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.scale == first.scale is not None
    for small, big in norms[20:]:
        second.update(small, big, 4, batch=64)
    assert second.scale == whole.scale


@pytest.mark.parametrize("wrong", [{"square": float("nan")}, {"variance": float("inf")}, {"updates": -1}, {"updates": 1.5}])
def test_a_state_that_cannot_be_is_refused(load, wrong):
    noise = load().GradientNoise()
    with pytest.raises((ValueError, TypeError)):
        noise.load_state_dict(dict(noise.state_dict(), **wrong))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((1.0, 1.0, 1), "between two parts"), ((1.0, 1.0, 16), "the whole batch is 8"), ((1.0, 1.0, 2.5), "whole number")],
)
def test_parts_that_cannot_be(load, arguments, message):
    bellows = load(BELLOWS_BATCH_SIZE="8")
    with pytest.raises((ValueError, TypeError), match=message):
        bellows.GradientNoise().update(*arguments)


def test_gain(load):
    bellows = load(BELLOWS_BATCH_SIZE="256", BELLOWS_BASE_BATCH_SIZE="64")
    assert bellows.gain(64.0) == pytest.approx(2 / 1.25)
    assert bellows.gain(64.0, batch=64) == 1
    assert bellows.gain(1e-9) == pytest.approx(1)
    assert bellows.gain(1e12) == pytest.approx(4)
    assert bellows.gain(None) == 1 and bellows.gain(float("nan")) == 1 and bellows.gain(-3.0) == 1
    with pytest.raises(ValueError, match="batch 0"):
        bellows.gain(1.0, batch=0)


def test_what_a_batch_is_worth_is_told(worker):
    bellows, shim = worker()
    bellows.report(1, loss=0.5, noise_scale=64.5, base_steps=2)
    assert shim.expect("progress") == {"step": 1, "samples": 8, "loss": 0.5, "noise_scale": 64.5, "base_steps": 2.0}
    bellows.report(2, noise_scale=float("inf"), base_steps=float("nan"))  # kept until the end: a report came just before
    bellows._run.flush()
    told = shim.expect("progress")
    assert told.pop("age", 0) >= 0 and told == {"step": 2, "samples": 16, "loss": None}
