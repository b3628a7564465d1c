"""What trainers are told: batch sizes and accumulation; worlds that they cannot share evenly are refused."""

import pytest


@pytest.mark.parametrize("world, each, times", [(1, 8, 8), (2, 8, 4), (4, 8, 2), (8, 8, 1)])
def test_a_step_is_the_same_samples_in_any_world(load, world, each, times):
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
