"""deepspeed_save and deepspeed_load: parts of ZeRO's flat state, put together for another number of ranks.

DeepSpeed is not there: what is used of an engine is made here. `make examples` trains with it.
"""

import types

import pytest

torch = pytest.importorskip("torch")


class DeepSpeedZeroOptimizer:
    """Of DeepSpeed's, what the module uses: each rank's optimizer has its part of all parameters, filled up with zeros."""

    def __init__(self, model, rank, world):
        self.bit16_groups = [list(model.parameters())]
        self.dtype, self.partition_count = torch.float32, [world]
        self.round_robin_gradients = self.cpu_offload = self.has_moe_layers = False
        flat = torch.cat([p.detach().flatten() for p in model.parameters()])
        size = -(-flat.numel() // (2 * world)) * 2
        own = torch.zeros(size)
        here = flat[rank * size : (rank + 1) * size]
        own[: len(here)] = here
        self.optimizer = torch.optim.Adam([own.requires_grad_()], lr=0.1)


def engine(rank=0, world=1, width=4, seed=1):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(width, 3), torch.nn.BatchNorm1d(3))
    zero = DeepSpeedZeroOptimizer(model, rank, world)
    scheduler = torch.optim.lr_scheduler.StepLR(zero.optimizer, 1)
    return types.SimpleNamespace(module=model, optimizer=zero, lr_scheduler=scheduler, global_steps=0)


def train(one, rank=0):
    """Make a step whose gradient is of the place that a value has in all of them."""
    (own,) = one.optimizer.optimizer.param_groups[0]["params"]
    own.grad = torch.arange(len(own)).float() + rank * len(own) + 1
    one.optimizer.optimizer.step()
    one.lr_scheduler.step()
    one.module[1].running_mean += 1


def state(one):
    (own,) = one.optimizer.optimizer.param_groups[0]["params"]
    return {"parameters": own.detach(), **one.optimizer.optimizer.state.get(own, {})}


@pytest.fixture
def saved(load, tmp_path):
    """Save as each of four ranks; return what they had."""
    engines = []
    for rank in (3, 2, 1, 0):
        each = engine(rank, 4)
        train(each, rank)
        load(BELLOWS_CHECKPOINT_DIR=tmp_path, RANK=rank, WORLD_SIZE=4).deepspeed_save(3, each)
        engines.insert(0, each)
    return engines


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_any_number_of_ranks_loads_what_four_have_saved(saved, load, tmp_path, world):
    loaded = [engine(rank, world, seed=2) for rank in range(world)]
    for rank, each in enumerate(loaded):
        assert load(BELLOWS_CHECKPOINT_DIR=tmp_path, RANK=rank, WORLD_SIZE=world).deepspeed_load(each) == 3 == each.global_steps
        assert each.lr_scheduler.last_epoch == 1
        assert each.optimizer.optimizer.param_groups[0]["lr"] == saved[0].optimizer.optimizer.param_groups[0]["lr"] == pytest.approx(0.01)
        assert torch.equal(each.module[1].running_mean, saved[0].module[1].running_mean)
        assert torch.equal(each.module[0].weight, saved[0].module[0].weight)
        assert each.optimizer.optimizer.param_groups[0]["params"][0].requires_grad and state(each)["step"] == 1
    whole = sum(p.numel() for p in saved[0].module.parameters())
    assert whole % 8, "no rank's part is filled up"
    for name in ("parameters", "exp_avg", "exp_avg_sq"):
        was, now = (torch.cat([state(each)[name] for each in engines]) for engines in (saved, loaded))
        assert torch.equal(was[:whole], now[:whole]), name
        assert was[:whole].abs().min() > 0 and not now[whole:].any(), name
    for rank, each in enumerate(loaded):
        train(each, rank)


def test_nothing_is_loaded_where_nothing_was_saved(load, tmp_path):
    one = engine()
    before = state(one)["parameters"].clone()
    assert load(BELLOWS_CHECKPOINT_DIR=tmp_path).deepspeed_load(one) == 0
    assert torch.equal(before, state(one)["parameters"]) and not one.optimizer.optimizer.state


@pytest.mark.parametrize("other", [{"width": 5}, {"width": 3}])
def test_another_models_checkpoint_is_refused(saved, load, tmp_path, other):
    with pytest.raises(ValueError, match="cannot be loaded into this model: .*is it a checkpoint of another model"):
        load(BELLOWS_CHECKPOINT_DIR=tmp_path, WORLD_SIZE=1).deepspeed_load(engine(**other))


def test_a_checkpoint_that_was_saved_otherwise_is_refused(load, tmp_path):
    load(BELLOWS_CHECKPOINT_DIR=tmp_path).save(3, lambda directory: None)
    with pytest.raises(ValueError, match="was not saved by bellows.deepspeed_save"):
        load(BELLOWS_CHECKPOINT_DIR=tmp_path, WORLD_SIZE=1).deepspeed_load(engine())


@pytest.mark.parametrize(
    "name, value, fault",
    [
        ("dtype", torch.float16, "float16"),
        ("round_robin_gradients", True, "round_robin_gradients"),
        ("cpu_offload", True, "offload_optimizer"),
        ("has_moe_layers", True, "parallelism of another kind"),
        ("partition_count", [2], "parallelism of another kind"),
    ],
)
@pytest.mark.parametrize("call", ["save", "load"])
def test_what_cannot_be_put_together_is_refused(load, tmp_path, call, name, value, fault):
    one, bellows = engine(), load(BELLOWS_CHECKPOINT_DIR=tmp_path)
    setattr(one.optimizer, name, value)
    with pytest.raises(ValueError, match=f"engine uses {fault}.* which cannot be saved for another number of workers"):
        bellows.deepspeed_save(3, one) if call == "save" else bellows.deepspeed_load(one)


def test_other_stages_are_refused(load, tmp_path):
    one = engine()
    one.optimizer = type("DeepSpeedZeroOptimizer_Stage3", (), {})()
    with pytest.raises(ValueError, match="is DeepSpeedZeroOptimizer_Stage3: use ZeRO stage 1 or 2; in the place of stage 3 use FSDP2"):
        load(BELLOWS_CHECKPOINT_DIR=tmp_path).deepspeed_load(one)


def test_a_step_is_the_same_samples_in_any_world(load):
    told = load(BELLOWS_BATCH_SIZE=64, BELLOWS_MICRO_BATCH=8, WORLD_SIZE=2).deepspeed_arguments()
    assert told == {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4}
    with pytest.raises(ValueError, match="a batch of 60 samples is not shared evenly by 4 workers"):
        load(BELLOWS_BATCH_SIZE=60, BELLOWS_MICRO_BATCH=8, WORLD_SIZE=4).deepspeed_arguments()
