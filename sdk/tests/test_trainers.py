"""What trainers are told: batch sizes and accumulation; worlds that they cannot share evenly are refused."""

import sys
import types

import pytest


@pytest.mark.parametrize("world, each, times", [(1, 8, 8), (2, 8, 4), (4, 8, 2), (8, 8, 1)])
def test_a_step_is_the_same_samples_in_any_world(load, has_devices, world, each, times):
    names = {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0, "LOCAL_RANK": 0}
    bellows = load(BELLOWS_BATCH_SIZE=64, BELLOWS_MICRO_BATCH=8, **names)
    assert bellows.trainer_arguments() == {
        "per_device_train_batch_size": each,
        "gradient_accumulation_steps": times,
        "dataloader_drop_last": True,
        "save_strategy": "no",
    }
    assert bellows.lightning_arguments()["accumulate_grad_batches"] == times
    assert bellows.accelerate_arguments() == {"step_scheduler_with_optimizer": False, "gradient_accumulation_steps": times}
    assert [len(part) for part in bellows.micro_batches(0, 1000)] == [each] * times


@pytest.fixture
def has_devices(monkeypatch):
    """Have torch see an accelerator; return what does so, as torch before 2.6 and after, and whether there is one."""

    def have(name, there):
        kinds = {"cuda": types.SimpleNamespace(is_available=lambda: False), name: types.SimpleNamespace(is_available=lambda: there)}
        monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(**kinds))

    have("cuda", True)
    return have


@pytest.mark.parametrize("name", ["cuda", "accelerator"])
def test_accelerate_trains_together_on_processors(load, has_devices, name):
    bellows = load(BELLOWS_BATCH_SIZE=64)
    has_devices(name, True)
    assert "cpu" not in bellows.accelerate_arguments()
    has_devices(name, False)
    assert bellows.accelerate_arguments()["cpu"] is True


@pytest.mark.parametrize("arguments", ["trainer_arguments", "lightning_arguments", "accelerate_arguments"])
@pytest.mark.parametrize("batch, micro, world", [(64, 0, 3), (60, 8, 4), (48, 5, 2)])
def test_batches_that_do_not_divide_are_refused(load, arguments, batch, micro, world):
    bellows = load(BELLOWS_BATCH_SIZE=batch, BELLOWS_MICRO_BATCH=micro, WORLD_SIZE=world)
    with pytest.raises(ValueError, match=f"a batch of {batch} samples is not shared evenly by {world} workers .* set --batch-size"):
        getattr(bellows, arguments)()


def test_lightning_has_the_world_that_bellows_made(load):
    alone = load(BELLOWS_BATCH_SIZE=64, WORLD_SIZE=1).lightning_arguments()
    assert (alone["devices"], alone["num_nodes"], alone["strategy"]) == (1, 1, "auto")
    names = {"RANK": 3, "WORLD_SIZE": 4, "LOCAL_WORLD_SIZE": 2, "LOCAL_RANK": 1, "GROUP_RANK": 1}
    two = load(BELLOWS_BATCH_SIZE=64, **names).lightning_arguments()
    assert (two["devices"], two["num_nodes"], two["strategy"]) == (2, 2, "ddp")
    assert two["use_distributed_sampler"] is False and two["enable_checkpointing"] is False


@pytest.mark.parametrize("rank, local, local_rank, node", [(0, 3, 0, 0), (3, 1, 0, 1), (2, 1, 0, 1)])
def test_lightning_cannot_number_uneven_nodes(load, rank, local, local_rank, node):
    names = {"RANK": rank, "WORLD_SIZE": 4, "LOCAL_WORLD_SIZE": local, "LOCAL_RANK": local_rank, "GROUP_RANK": node}
    bellows = load(BELLOWS_BATCH_SIZE=64, **names)
    with pytest.raises(ValueError, match="another number of workers than the others"):
        bellows.lightning_arguments()


@pytest.fixture
def stopped(load, monkeypatch):
    """Load the module, told to stop before step 5; return it and what is saved and evaluated, in turn."""
    bellows = load(BELLOWS_BATCH_SIZE=64)
    told = []
    monkeypatch.setattr(bellows, "should_stop", lambda step: step >= 5)
    monkeypatch.setattr(bellows, "save", lambda step, write: told.append("saved %d" % step))
    return bellows, told


def test_hugging_faces_trainer_saves_before_it_evaluates(stopped, monkeypatch):
    bellows, told = stopped
    monkeypatch.setitem(sys.modules, "transformers", types.SimpleNamespace(TrainerCallback=object))
    callbacks = []

    def train(resume_from_checkpoint):
        assert resume_from_checkpoint is None
        control, state = types.SimpleNamespace(should_training_stop=False), types.SimpleNamespace(global_step=0, max_steps=9)
        while not control.should_training_stop:
            callbacks[0].on_step_begin(None, state, control)
            state.global_step += 1
            callbacks[0].on_step_end(None, state, control)
            told.append("evaluated %d" % state.global_step)
        callbacks[0].on_train_end(None, state, control)

    arguments = types.SimpleNamespace(**bellows.trainer_arguments())
    bellows.trainer_train(types.SimpleNamespace(args=arguments, add_callback=callbacks.append, train=train), save_every=3)
    assert told == [f"evaluated {n}" for n in (1, 2)] + ["saved 3"] + [f"evaluated {n}" for n in (3, 4)] + ["saved 5", "evaluated 5", "saved 5"]


def test_lightning_saves_before_it_evaluates(stopped, monkeypatch):
    """It evaluates whenever it is stopped; what other callbacks do at the end of a step comes before."""
    bellows, told = stopped
    monkeypatch.setitem(sys.modules, "lightning.pytorch", types.SimpleNamespace(Callback=object))
    callback = bellows.lightning_callback(save_every=3)
    trainer = types.SimpleNamespace(global_step=0, max_steps=9, should_stop=False, accumulate_grad_batches=1)
    callback.on_train_start(trainer, None)
    while not trainer.should_stop:
        callback.on_train_batch_start(trainer, None, None, trainer.global_step)
        trainer.global_step += 1
        callback.on_train_batch_end(trainer, None, {}, None, trainer.global_step - 1)
        told.append("averaged %d" % trainer.global_step)
        callback.on_validation_start(trainer, None)
        told.append("evaluated %d" % trainer.global_step)
    callback.on_train_end(trainer, None)
    assert told[:4] == ["averaged 1", "evaluated 1", "averaged 2", "evaluated 2"]
    assert told[4:] == ["saved 3", "averaged 3", "evaluated 3", "averaged 4", "evaluated 4", "averaged 5", "saved 5", "evaluated 5", "saved 5"]


class Tree:
    """What jax_save and jax_load use of jax.tree_util, for dicts of arrays."""

    @staticmethod
    def tree_flatten_with_path(tree):
        return [((name,), tree[name]) for name in sorted(tree)], None

    @staticmethod
    def keystr(path):
        return "['%s']" % path

    @staticmethod
    def tree_structure(tree):
        return sorted(tree)

    @staticmethod
    def tree_unflatten(structure, leaves):
        return dict(zip(structure, leaves))


@pytest.fixture
def saved_for_jax(load, monkeypatch, tmp_path):
    """Save two arrays as a script in JAX does; return the module, resumable, and numpy."""
    numpy = pytest.importorskip("numpy")
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(tree_util=Tree))
    load(BELLOWS_CHECKPOINT_DIR=tmp_path).jax_save(3, {"w": numpy.ones((2, 2)), "b": numpy.zeros(2)})
    return load(BELLOWS_CHECKPOINT_DIR=tmp_path), numpy


def test_what_jax_saves_it_loads(saved_for_jax, load, tmp_path):
    bellows, numpy = saved_for_jax
    state, step = bellows.jax_load({"w": numpy.zeros((2, 2)), "b": numpy.ones(2)})
    assert step == 3 and state["w"].tolist() == [[1, 1], [1, 1]] and state["b"].tolist() == [0, 0]
    fresh = {"w": numpy.zeros(1)}
    assert load(BELLOWS_CHECKPOINT_DIR=tmp_path / "none").jax_load(fresh) == (fresh, 0)


@pytest.mark.parametrize(
    "w, other, fault",
    [((2, 3), {}, r"\['w'\] is float64\[2, 2\] there and float64\[2, 3\] in the model"), ((2, 2), {"c": 1}, r"\['c'\] is only in the model")],
)
def test_jax_refuses_another_models_checkpoint(saved_for_jax, w, other, fault):
    bellows, numpy = saved_for_jax
    with pytest.raises(ValueError, match=fault + ": is it a checkpoint of another model"):
        bellows.jax_load({"w": numpy.ones(w), "b": numpy.zeros(2), **{name: numpy.zeros(n) for name, n in other.items()}})


def test_jax_gathers_sharded_arrays(saved_for_jax, load, monkeypatch, tmp_path):
    """All ranks do, in the same order: it is an exchange between them."""
    _, numpy = saved_for_jax
    gathered = []
    tools = types.SimpleNamespace(process_allgather=lambda leaf, tiled: gathered.append(leaf.name) or numpy.arange(4.0))
    monkeypatch.setitem(sys.modules, "jax.experimental.multihost_utils", tools)
    parts = [types.SimpleNamespace(is_fully_replicated=False, is_fully_addressable=False, name=name) for name in "ab"]
    everywhere = types.SimpleNamespace(is_fully_replicated=True, addressable_data=lambda n: numpy.full(2, 3.0))
    state = {"a": parts[0], "b": parts[1], "w": everywhere}
    for rank in (1, 0):
        load(BELLOWS_CHECKPOINT_DIR=tmp_path / "s", RANK=rank, WORLD_SIZE=2).jax_save(4, state)
    assert gathered == ["a", "b", "a", "b"]
    fresh = {"a": numpy.zeros(4), "b": numpy.zeros(4), "w": numpy.zeros(2)}
    state, step = load(BELLOWS_CHECKPOINT_DIR=tmp_path / "s").jax_load(fresh)
    assert step == 4 and state["a"].tolist() == state["b"].tolist() == [0, 1, 2, 3] and state["w"].tolist() == [3, 3]


@pytest.mark.parametrize("host, devices, want", [("::1", "", ("[::1]:7", None)), ("h", "a,b", ("h:7", [1]))])
def test_jax_meets_where_bellows_says(load, monkeypatch, host, devices, want):
    told = {}
    distributed = types.SimpleNamespace(initialize=lambda **named: told.update(named))
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(distributed=distributed))
    names = {"MASTER_ADDR": host, "MASTER_PORT": 7, "CUDA_VISIBLE_DEVICES": devices, "LOCAL_WORLD_SIZE": 2, "LOCAL_RANK": 1}
    load(RANK=1, WORLD_SIZE=2, **names).jax_initialize()
    assert told == {"coordinator_address": want[0], "num_processes": 2, "process_id": 1, "local_device_ids": want[1]}
    told.clear()
    load(RANK=0, WORLD_SIZE=1, **names).jax_initialize()
    assert told == {}
