"""Which samples: the same for any number of workers, each once in a pass."""

import pytest


def batch(load, step, size, world, **names):
    """The samples of a step, rank by rank."""
    parts = []
    for rank in range(world):
        bellows = load(RANK=rank, WORLD_SIZE=world, **names)
        parts.append(bellows.indices(step, size))
    assert [i for part in parts for i in part] == bellows.global_indices(step, size)
    return parts


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8, 16])
def test_ranks_share_a_batch_evenly(load, world):
    whole = load(BELLOWS_BATCH_SIZE=24).global_indices(7, 1000)
    parts = batch(load, 7, 1000, world, BELLOWS_BATCH_SIZE=24)
    assert [i for part in parts for i in part] == whole
    assert {len(part) for part in parts} <= {24 // world, -(-24 // world)}


def run(load, worlds, batches, steps, size):
    """Train in generations of some steps each, resuming each from the one before; return the batch of each step."""
    seen, samples = [], 0
    for generation, (world, batch_size) in enumerate(zip(worlds, batches)):
        start = generation * steps
        resumed = {"BELLOWS_RESUME_STEP": start or None, "BELLOWS_RESUME_SAMPLES": samples or None}
        for step in range(start, start + steps):
            parts = batch(load, step, size, world, BELLOWS_BATCH_SIZE=batch_size, **resumed)
            seen.append([i for part in parts for i in part])
        samples = load(BELLOWS_BATCH_SIZE=batch_size, **resumed).position(start + steps)
    return seen, samples


def test_rescaling_changes_no_batch(load):
    rescaled, samples = run(load, [8, 4, 8, 2], [64, 64, 64, 64], 5, 150)
    never, _ = run(load, [1, 1, 1, 1], [64, 64, 64, 64], 5, 150)
    assert rescaled == never
    assert samples == 20 * 64


def test_a_new_batch_size_goes_on_where_the_old_one_was(load):
    seen, samples = run(load, [8, 4, 2], [64, 32, 48], 5, 150)
    flat = [i for part in seen for i in part]
    assert len(flat) == samples == 5 * (64 + 32 + 48)
    for epoch in range(samples // 150):
        assert sorted(flat[150 * epoch : 150 * (epoch + 1)]) == list(range(150))


@pytest.mark.parametrize("size", [*range(1, 70), 997, 1000, 1024, 65537])
def test_each_pass_has_each_sample_once(load, size):
    bellows = load(BELLOWS_BATCH_SIZE=size)
    for epoch in (0, 1, 5):
        assert sorted(bellows.global_indices(epoch, size, seed=3)) == list(range(size))


def test_passes_and_seeds_differ(load):
    bellows = load(BELLOWS_BATCH_SIZE=1000)
    orders = {tuple(bellows.global_indices(epoch, 1000, seed)) for epoch in range(3) for seed in range(3)}
    assert len(orders) == 9


def test_orders_are_mixed(load):
    """Neighbours in the data are not neighbours in a pass, and places say nothing of samples."""
    size = 10000
    order = load(BELLOWS_BATCH_SIZE=size).global_indices(0, size)
    near = sum(abs(a - b) < size // 100 for a, b in zip(order, order[1:]))
    assert near < 3 * size // 100  # 2 % would be chance
    halves = sum(i < size // 2 for i in order[: size // 2])
    assert abs(halves - size // 4) < 250  # 5 standard deviations


def test_small_orders_are_all_about_as_likely(load):
    counts = {}
    bellows = load(BELLOWS_BATCH_SIZE=4)
    for seed in range(2400):
        order = tuple(bellows.global_indices(0, 4, seed))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert min(counts.values()) > 50 and max(counts.values()) < 170  # 100 each by chance


def test_the_order_is_for_ever(load):
    """A job may be resumed by a newer Bellows: these numbers must never change."""
    bellows = load(BELLOWS_BATCH_SIZE=8)
    assert bellows.global_indices(0, 10, seed=0) == ORDERS[0]
    assert bellows.global_indices(1, 10, seed=0) == ORDERS[1]
    assert bellows.global_indices(12345, 1281167, seed=42) == ORDERS[2]


ORDERS = [
    [2, 1, 9, 0, 7, 4, 3, 5],
    [8, 6, 4, 7, 2, 1, 0, 6],
    [754275, 472005, 319460, 1006441, 47633, 747688, 307126, 469290],
]


def test_without_shuffling(load):
    bellows = load(BELLOWS_BATCH_SIZE=4, RANK=1, WORLD_SIZE=2)
    assert bellows.indices(1, 5, seed=None) == [1, 2]
    assert bellows.global_indices(1, 5, seed=None) == [4, 0, 1, 2]


def test_batches_for_a_data_loader(load):
    bellows = load(BELLOWS_BATCH_SIZE=4, RANK=1, WORLD_SIZE=2, BELLOWS_RESUME_STEP=10, BELLOWS_RESUME_SAMPLES=40)
    batches = bellows.Batches(10, 13, 100, seed=1)
    assert len(batches) == 3
    assert list(batches) == [bellows.indices(step, 100, 1) for step in (10, 11, 12)]
    assert list(batches) == list(batches)


def test_bad_numbers_are_named(load):
    with pytest.raises(ValueError, match="dataset_size 0"):
        load().indices(0, 0)
    with pytest.raises(ValueError, match="RANK='x'"):
        load(RANK="x").rank()
    with pytest.raises(ValueError, match="BELLOWS_BATCH_SIZE='-4'"):
        load(RANK=0, BELLOWS_BATCH_SIZE=-4)


def trained(load, directory, size, step=5, **names):
    bellows = load(BELLOWS_BATCH_SIZE=8, BELLOWS_CHECKPOINT_DIR=directory, **names)
    checkpoint = bellows.resume()
    at = checkpoint.step if checkpoint else 0
    bellows.indices(at, size)
    bellows.save(at + step, lambda d: None)
    return bellows


def test_a_data_set_of_another_length_is_refused(load, tmp_path):
    trained(load, tmp_path, 100)
    with pytest.raises(ValueError, match="dataset_size 90: the checkpoint of step 5 was trained on 100 samples: .*data_changed=True"):
        trained(load, tmp_path, 90)
    bellows = load(BELLOWS_BATCH_SIZE=8, BELLOWS_CHECKPOINT_DIR=tmp_path)
    bellows.resume()
    with pytest.raises(ValueError, match="dataset_size 90"):
        bellows.global_indices(5, 90)
    trained(load, tmp_path, 100)
    bellows.resume(data_changed=True)
    assert len(bellows.indices(10, 90)) == 8


def test_another_data_set_may_come_later(load, tmp_path):
    bellows = trained(load, tmp_path, 100)
    bellows.indices(6, 50)
    bellows.save(7, lambda d: None)
    bellows.resume()
    assert bellows.indices(7, 50) and bellows.indices(7, 100)
    with pytest.raises(ValueError, match="was trained on 50 and 100 samples"):
        bellows.indices(7, 60)
    assert bellows.indices(8, 60)


def test_a_list_of_data_sets_that_cannot_be_read_is_named(load, tmp_path):
    trained(load, tmp_path, 100)
    (found,) = tmp_path.glob("step-*/rank-00000/data.json")
    found.write_text("{}")
    with pytest.raises(ValueError, match="data.json of rank 0: .*resume from another checkpoint"):
        trained(load, tmp_path, 100)


def test_a_script_that_begins_before_its_resume_is_refused(load, tmp_path):
    trained(load, tmp_path, 100)
    bellows = load(BELLOWS_BATCH_SIZE=8, BELLOWS_CHECKPOINT_DIR=tmp_path)
    assert not bellows.should_stop(0)  # it has not asked for a checkpoint
    bellows.resume()
    with pytest.raises(ValueError, match="step 0: this run resumed at step 5; start your loop at resume"):
        bellows.should_stop(0)
    assert not bellows.should_stop(5)
