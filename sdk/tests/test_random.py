"""Random numbers: none twice over ranks and steps, the same after a resume."""

import random

import pytest


def drawn(bellows, step, **who):
    bellows.seed(step, **who)
    return random.random()


def test_no_two_ranks_steps_or_trainings_share_numbers(load):
    seen = set()
    for rank in range(4):
        bellows = load(RANK=rank, WORLD_SIZE=4, BELLOWS_BATCH_SIZE=8, BELLOWS_MICRO_BATCH=1)
        for step in range(50):
            for base in (0, 1):
                for part in (None, *bellows.micro_batches(step, 100)):
                    seen.add((bellows.stream(step, part, base).number, drawn(bellows, step, part=part, base=base)))
    assert len(seen) == len({a for a, _ in seen}) == len({b for _, b in seen}) == 4 * 50 * 2 * 3


def test_a_resumed_run_draws_what_it_would_have_drawn(load):
    before = [drawn(load(RANK=1, WORLD_SIZE=2), step) for step in range(4)]
    resumed = load(RANK=1, WORLD_SIZE=2, BELLOWS_RESUME_STEP=2, BELLOWS_RESUME_SAMPLES=512)
    assert [drawn(resumed, step) for step in (2, 3)] == before[2:]


def test_streams_are_for_ever(load):
    """A job may be resumed by a newer Bellows: these numbers must never change."""
    bellows = load(RANK=3, WORLD_SIZE=4)
    assert (bellows.stream(0).number, bellows.stream(12345, bellows.micro_batches(0, 9)[0], base=7).number) == NUMBERS


NUMBERS = (3093636958495357066, 4600792672417352673)


def test_a_logical_worker_draws_the_same_on_any_rank(load):
    names = {"BELLOWS_BATCH_SIZE": 16, "BELLOWS_LOGICAL_WORKERS": 8, "BELLOWS_MICRO_BATCH": 1}
    numbers = []
    for rank, world, nth in ((0, 2, 7), (3, 8, 1)):
        bellows = load(RANK=rank, WORLD_SIZE=world, **names)
        numbers.append(bellows.seed(5, bellows.micro_batches(5, 100)[nth]))
    assert numbers[0] == numbers[1]
    with pytest.raises(TypeError, match="step 'x'"):
        load().seed("x")


def test_generators_of_the_libraries(load):
    bellows = load(RANK=1, WORLD_SIZE=2)
    one, two = bellows.stream(3), bellows.stream(4)
    assert one.random().random() == one.random().random() != two.random().random()
    numpy = pytest.importorskip("numpy")
    assert one.numpy().random() == one.numpy().random() != two.numpy().random()
    bellows.seed(3)
    first = numpy.random.random()
    bellows.seed(3)
    assert numpy.random.random() == first


def test_torch_is_seeded(load):
    torch = pytest.importorskip("torch")
    masks = {}
    for rank in (0, 1):
        bellows = load(RANK=rank, WORLD_SIZE=2)
        for step in (0, 1):
            bellows.seed(step)
            masks[rank, step] = tuple(torch.nn.functional.dropout(torch.ones(64)).tolist())
    assert len(set(masks.values())) == 4
    assert torch.rand(1, generator=bellows.stream(1).torch()) == torch.rand(1, generator=bellows.stream(1).torch())


def test_jax_keys_differ(load):
    jax = pytest.importorskip("jax")
    bellows = load()
    keys = {tuple(map(int, jax.random.key_data(bellows.stream(step).jax()))) for step in range(10)}
    assert len(keys) == 10


class Noisy:
    """A data set whose samples are augmented."""

    def __len__(self):
        return 100

    def __getitem__(self, i):
        return i, random.random()


def test_augmentation_is_of_the_sample_and_the_step(load):
    names = {"BELLOWS_BATCH_SIZE": 50}
    alone = load(**names)
    whole = [[Seen[i] for i in batch] for Seen in (alone.Seeded(Noisy()),) for batch in alone.Batches(0, 4, 100)]
    halves = []
    for rank in (0, 1):
        bellows = load(RANK=rank, WORLD_SIZE=2, BELLOWS_MICRO_BATCH=5, **names)
        noisy = bellows.Seeded(Noisy())
        halves.append([[noisy[i] for part in bellows.micro_batches(step, 100) for i in part] for step in range(4)])
    assert [a + b for a, b in zip(*halves)] == whole
    assert len({noise for batch in whole for _, noise in batch}) == 200  # a sample's differ in the second pass


def test_augmentation_leaves_the_other_generators_alone(load):
    bellows = load(BELLOWS_BATCH_SIZE=4)
    noisy = bellows.Seeded(Noisy())
    assert len(noisy) == 100
    state = bellows.random_state()
    [noisy[i] for i in next(iter(bellows.Batches(0, 1, 100)))]
    assert str(bellows.random_state()) == str(state)
    with pytest.raises(TypeError, match=r"Seeded\[3\]: the index does not know its step"):
        noisy[3]


def test_states_that_a_script_keeps(load):
    bellows = load(RANK=1, WORLD_SIZE=2)
    state = bellows.random_state()
    expected = random.random()
    assert bellows.set_random_state(state, step=5)
    assert random.random() == expected
    # After a rescale nothing is drawn again that any rank has drawn.
    grown = load(RANK=3, WORLD_SIZE=4)
    assert not grown.set_random_state(state, step=5)
    assert random.random() == drawn(grown, 5) != expected


def test_states_of_torch_can_be_loaded_safely(load, tmp_path):
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    bellows = load()
    torch.save(bellows.random_state(), str(tmp_path / "random.pt"))
    expected = (random.random(), numpy.random.random(), torch.rand(1).item())
    safely = {"weights_only": True} if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 6) else {}
    assert bellows.set_random_state(torch.load(str(tmp_path / "random.pt"), **safely), step=1)
    assert (random.random(), numpy.random.random(), torch.rand(1).item()) == expected
