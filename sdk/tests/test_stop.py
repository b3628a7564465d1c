"""hold and stop_after: every rank ends after the same step, whatever the timing."""

import os
import random
import signal
import subprocess
import threading

import pytest

from conftest import PATIENCE_S, PYTHON, in_thread, script_environment


def test_a_rank_in_a_step_says_so_and_begins_no_other(worker):
    bellows, shim = worker()
    assert not bellows.should_stop(5)
    shim.send({"hold": {}})
    assert shim.expect("held") == {"begun": 5}
    asked = in_thread(bellows.should_stop, 6)
    shim.send({"stop_after": 5})
    assert asked()
    assert bellows.should_stop(6), "the answer does not change"


def test_a_rank_behind_catches_up(worker):
    bellows, shim = worker()
    assert not bellows.should_stop(5)
    shim.send({"hold": {}})
    assert shim.expect("held") == {"begun": 5}
    asked = in_thread(bellows.should_stop, 6)
    shim.send({"stop_after": 7})
    assert not asked()
    assert not bellows.should_stop(7)
    assert bellows.should_stop(8)


def test_asking_again_for_the_step_that_was_begun_does_not_wait(worker):
    bellows, shim = worker()
    assert not bellows.should_stop(5)
    shim.send({"hold": {}})
    shim.expect("held")
    assert not bellows.should_stop(5)


def test_a_hold_that_is_repeated_gets_the_same_answer(worker):
    bellows, shim = worker()
    assert not bellows.should_stop(3)
    for _ in range(3):
        shim.send({"hold": {}})
        assert shim.expect("held") == {"begun": 3}


def test_messages_that_come_in_pieces_or_together(worker):
    bellows, shim = worker()
    assert not bellows.should_stop(0)
    shim.send_bytes(b'{"ho')
    shim.send_bytes(b'ld":{}}\n{"from a newer shim":1}\n{"stop_after":0}\n')
    assert shim.expect("held") == {"begun": 0}
    assert in_thread(bellows.should_stop, 1)()


@pytest.mark.parametrize("held", [False, True])
def test_a_shim_that_dies(worker, held, capfd):
    bellows, shim = worker()
    assert not bellows.should_stop(5)
    if held:
        shim.send({"hold": {}})
        shim.expect("held")
    asked = in_thread(bellows.should_stop, 6) if held else None
    shim.close()
    if asked is not None:
        assert asked(), "held, and the end is near"
    else:
        wait_until_lost(bellows)
        assert not bellows.should_stop(6), "not held: train on, it costs nothing"
    wait_until_lost(bellows)
    assert capfd.readouterr().err.count("lost the connection to Bellows") == 1


def wait_until_lost(bellows):
    bellows._run.link._reader.join(PATIENCE_S)
    assert bellows._run.link.lost()


@pytest.mark.parametrize("line", [b"not json\n", b"[1]\n", b'{"stop_after":"x"}\n', b"x" * (3 << 20)])
def test_nonsense_from_the_socket_is_the_end_of_it_but_not_of_training(worker, line):
    bellows, shim = worker()
    try:
        shim.send_bytes(line)
    except OSError:
        pass  # it hung up on us before all was sent
    wait_until_lost(bellows)
    assert not bellows.should_stop(0)


def test_no_shim_at_all(load, tmp_path, capfd):
    bellows = load(BELLOWS_WORKER_SOCKET=tmp_path / "absent")
    assert "connect to" in capfd.readouterr().err
    assert not bellows.should_stop(0)
    with pytest.raises(bellows.SaveError, match="connect to"):
        bellows.save(1, lambda directory: None)


def test_what_was_begun_is_told_exactly(worker):
    """hold comes while a rank asks as fast as it can: the step it tells is the last one that it began."""
    for trial in range(100):
        bellows, shim = worker()
        begun = []
        more = random.Random(trial).randrange(3)

        def train(bellows=bellows, begun=begun):
            step = 0
            while not bellows.should_stop(step):
                begun.append(step)
                step += 1

        running = in_thread(train)
        shim.send({"hold": {}})
        told = shim.expect("held")["begun"]
        shim.send({"stop_after": told + more})
        running()
        assert begun == list(range(told + more + 1))
        shim.close()


def test_all_ranks_end_after_the_same_step(worker):
    """Ranks that meet in every step, as gradients make them, all leave after the same one; none waits for one that left."""
    world = 4
    for trial in range(40):
        rng = random.Random(trial)
        ranks = [worker(rank) for rank in range(world)]
        meet = threading.Barrier(world)
        hold_at = rng.randrange(5)
        reached = threading.Event()

        def train(bellows, rank, hold_at=hold_at, reached=reached, meet=meet):
            step = 0
            while not bellows.should_stop(step):
                if step == hold_at and rank == 0:
                    reached.set()
                meet.wait(PATIENCE_S)  # raises if one of them never comes
                step += 1
            return step

        running = [in_thread(train, bellows, rank) for rank, (bellows, _) in enumerate(ranks)]
        assert reached.wait(PATIENCE_S)
        for _, shim in rng.sample(ranks, world):
            shim.send({"hold": {}})
        stop_after = max(shim.expect("held")["begun"] for _, shim in ranks)
        for _, shim in rng.sample(ranks, world):
            shim.send({"stop_after": stop_after})
        assert {wait() for wait in running} == {stop_after + 1}
        for _, shim in ranks:
            shim.close()


def test_nothing_begun(worker):
    bellows, shim = worker()
    shim.send({"hold": {}})
    assert shim.expect("held") == {"begun": -1}
    asked = in_thread(bellows.should_stop, 100)
    shim.send({"stop_after": -1})
    assert asked()


def test_a_held_worker_can_be_told_to_go(shim):
    """When no rank has begun anything, a worker that waits in should_stop gets a SIGTERM."""
    script = "import bellows; print('loaded', flush=True); input(); bellows.should_stop(0)"
    environ = script_environment(BELLOWS_WORKER_SOCKET=shim.path)
    with subprocess.Popen([PYTHON, "-c", script], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        peer = shim.accept()
        assert peer.expect("hello")["pid"] == process.pid
        assert process.stdout.readline() == b"loaded\n"
        peer.send({"hold": {}})
        assert peer.expect("held") == {"begun": -1}
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == -signal.SIGTERM


def test_a_worker_that_ends_closes_its_connection(shim):
    environ = script_environment(BELLOWS_WORKER_SOCKET=shim.path, RANK=3, WORLD_SIZE=4)
    with subprocess.Popen([PYTHON, "-c", "import bellows; bellows.should_stop(0)"], env=environ) as process:
        peer = shim.accept()
        assert peer.expect("hello")["rank"] == 3
        peer.send({"welcome": {}})
        assert process.wait(PATIENCE_S) == 0
    assert peer.next() is None
    assert "BELLOWS_SDK_PID" not in os.environ


def test_no_step_begins_before_the_welcome(load, shim, tmp_path):
    """A halt that comes while a worker connects must find it before its first step."""
    bellows = load(BELLOWS_WORKER_SOCKET=shim.path, RANK=0, BELLOWS_CHECKPOINT_DIR=tmp_path)
    peer = shim.accept()
    peer.expect("hello")
    asked = in_thread(bellows.should_stop, 0)
    peer.send({"hold": {}})  # ahead of the welcome
    peer.send({"welcome": {}})
    assert peer.expect("held") == {"begun": -1}
    peer.send({"stop_after": -1})
    assert asked()
