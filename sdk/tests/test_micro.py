"""Micro-batches: the step's samples whatever the world, and no more at once than a device holds."""

import pickle

import pytest

SIZE = 1000


def parts_of(load, step, world, **names):
    """The micro-batches of a step, over all ranks in turn."""
    found = []
    for rank in range(world):
        bellows = load(RANK=rank, WORLD_SIZE=world, **names)
        mine = bellows.micro_batches(step, SIZE)
        assert [i for part in mine for i in part] == bellows.indices(step, SIZE)
        assert len(mine) == bellows.accumulation_steps()
        found.append(mine)
    return found


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("micro", [0, 1, 4, 7, 48])
@pytest.mark.parametrize("batch", [48, 50])
def test_ranks_take_as_many_of_the_same_size(load, world, micro, batch):
    parts = parts_of(load, 3, world, BELLOWS_BATCH_SIZE=batch, BELLOWS_MICRO_BATCH=micro)
    assert len({len(mine) for mine in parts}) == 1  # or DDP would hang
    sizes = [len(part) for mine in parts for part in mine]
    assert sum(sizes) == batch
    assert max(sizes) <= (micro or batch) and max(sizes) - min(sizes) <= 2
    assert sum(part.weight for mine in parts for part in mine) == pytest.approx(1)
    assert [part.worker for mine in parts for part in mine] == [r for r, mine in enumerate(parts) for _ in mine]


@pytest.mark.parametrize("micro", [0, 1, 3])
def test_logical_workers_have_the_same_micro_batches_in_any_world(load, micro):
    names = {"BELLOWS_BATCH_SIZE": 50, "BELLOWS_MICRO_BATCH": micro, "BELLOWS_LOGICAL_WORKERS": 8}
    cuts = []
    for world in (1, 2, 4, 8):
        parts = parts_of(load, 3, world, **names)
        cuts.append([(list(part), part.worker, part.number, part.last, part.weight) for mine in parts for part in mine])
    assert cuts[0] == cuts[1] == cuts[2] == cuts[3]
    assert sorted({worker for _, worker, *_ in cuts[0]}) == list(range(8))
    assert [last for *_, last, _ in cuts[0]] == [number == cuts[0][-1][2] for _, _, number, *_ in cuts[0]]


def test_more_workers_than_logical_ones_are_refused(load):
    bellows = load(WORLD_SIZE=8, BELLOWS_LOGICAL_WORKERS=4)
    with pytest.raises(ValueError, match="BELLOWS_LOGICAL_WORKERS=4: 8 workers cannot share them evenly"):
        bellows.micro_batches(0, SIZE)
    with pytest.raises(ValueError, match="6 logical workers: use a power of two"):
        load(WORLD_SIZE=2, BELLOWS_LOGICAL_WORKERS=6).TreeSum([])
    with pytest.raises(ValueError, match="0 logical workers"):
        load(WORLD_SIZE=2, BELLOWS_LOGICAL_WORKERS=0).TreeSum([])


def test_a_micro_batch_larger_than_the_batch_is_refused(load):
    with pytest.raises(ValueError, match="BELLOWS_MICRO_BATCH=64: the whole batch is 32"):
        load(BELLOWS_BATCH_SIZE=32, BELLOWS_MICRO_BATCH=64).accumulation_steps()


def test_micro_batches_for_a_data_loader(load):
    names = {"RANK": 1, "WORLD_SIZE": 2, "BELLOWS_BATCH_SIZE": 16, "BELLOWS_MICRO_BATCH": 3}
    bellows = load(BELLOWS_RESUME_STEP=10, BELLOWS_RESUME_SAMPLES=160, **names)
    batches = bellows.MicroBatches(10, 12, SIZE)
    assert len(batches) == 2 * 3
    assert list(batches) == bellows.micro_batches(10, SIZE) + bellows.micro_batches(11, SIZE)
    assert list(bellows.MicroBatches(12, 10, SIZE)) == []


def test_indices_know_their_step_also_in_another_process(load, monkeypatch):
    """A loader's workers get the indices pickled."""
    bellows = load(BELLOWS_BATCH_SIZE=4)
    monkeypatch.setitem(__import__("sys").modules, "bellows", bellows)
    for batch in (next(iter(bellows.Batches(7, 8, SIZE))), next(iter(bellows.MicroBatches(7, 8, SIZE)))):
        again = pickle.loads(pickle.dumps(batch))
        assert again == batch and [i.step for i in again] == [7] * 4
