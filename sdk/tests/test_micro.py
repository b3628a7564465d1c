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
    with pytest.raises(ValueError, match="6 logical workers: run with --logical-workers 8, or another power of two"):
        load(WORLD_SIZE=2, BELLOWS_LOGICAL_WORKERS=6).TreeSum([])
    with pytest.raises(ValueError, match="no logical workers"):
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


class Loader:
    """What `steps` uses of torch's DataLoader."""

    def __init__(self, batch_sampler):
        self.batch_sampler = batch_sampler

    def __iter__(self):
        return ((part, None) for part in self.batch_sampler)


def test_steps_are_asked_seeded_and_reported(worker):
    bellows, peer = worker(BELLOWS_BATCH_SIZE=8, BELLOWS_MICRO_BATCH=4, BELLOWS_RESUME_STEP=5, BELLOWS_RESUME_SAMPLES=40)
    import random

    taken, drawn = [], []
    for n, parts in enumerate(bellows.steps(Loader(bellows.MicroBatches(5, 9, SIZE)))):
        taken.append([part for part, _ in parts])
        drawn.append(random.random())
        if n == 1:
            peer.send({"stop_after": 6})
            while bellows._run.link._stop_after is None:
                pass
    assert taken == [bellows.micro_batches(step, SIZE) for step in (5, 6)]
    assert drawn == [bellows.stream(step).random().random() for step in (5, 6)]
    assert peer.expect("progress")["step"] == 6
    assert bellows._run.reported == 7


def test_steps_of_whole_batches_need_no_loader(load):
    bellows = load(BELLOWS_BATCH_SIZE=4)
    assert [list(parts) for parts in bellows.steps(bellows.Batches(0, 3, SIZE))] == [[bellows.indices(step, SIZE)] for step in range(3)]


def test_a_scripts_own_report_is_not_replaced(load, monkeypatch):
    bellows = load(BELLOWS_BATCH_SIZE=4)
    told, report = [], bellows.report
    monkeypatch.setattr(bellows, "report", lambda step, **more: told.append((step, more)) or report(step, **more))
    for step, parts in enumerate(bellows.steps(bellows.Batches(0, 2, SIZE))):
        list(parts)
        if step == 0:
            bellows.report(1, loss=0.5)
    assert told == [(1, {"loss": 0.5}), (2, {})]


def test_steps_want_their_batches_and_all_of_them(load):
    bellows = load(BELLOWS_BATCH_SIZE=8, BELLOWS_MICRO_BATCH=2)
    with pytest.raises(TypeError, match=r"steps\(Loader\): its batches are of list: use DataLoader\(data, batch_sampler=bellows.MicroBatches"):
        next(bellows.steps(Loader([[1], [2]])))
    with pytest.raises(ValueError, match="step 0: 3 of its 4 batches were not taken: train on all of them"):
        for parts in bellows.steps(bellows.MicroBatches(0, 2, SIZE)):
            next(parts)
