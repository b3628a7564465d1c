"""The same scripts without Bellows."""

import json
import os
import signal
import subprocess

import pytest

from conftest import PATIENCE_S, PYTHON, script_environment


def write(directory):
    with open(os.path.join(directory, "model.pt"), "w") as f:
        f.write("weights")


def test_one_worker_by_default(load):
    bellows = load()
    assert (bellows.rank(), bellows.world_size(), bellows.local_rank(), bellows.batch_size()) == (0, 1, 0, 256)
    assert not bellows.managed()
    assert not bellows.should_stop(0)
    assert bellows.resume() is None
    bellows.report(1, loss=0.5)


def test_what_the_environment_says_wins(load, tmp_path):
    bellows = load()
    bellows.standalone(batch_size=64, directory="out")
    assert bellows.batch_size() == 64
    bellows.save(1, write)
    assert (tmp_path / "out" / "step-000000000001" / "rank-00000" / "model.pt").exists()

    bellows = load(BELLOWS_BATCH_SIZE=32, BELLOWS_CHECKPOINT_DIR=tmp_path / "env")
    bellows.standalone(batch_size=64, directory="out")
    assert bellows.batch_size() == 32
    bellows.save(1, write)
    assert (tmp_path / "env" / "step-000000000001").exists()
    with pytest.raises(ValueError, match="batch_size 0"):
        load(BELLOWS_BATCH_SIZE=None).standalone(batch_size=0)


def test_save_and_resume(load, tmp_path):
    for rank in (1, 0):
        load(RANK=rank, WORLD_SIZE=2, BELLOWS_BATCH_SIZE=16).save(10, write)
    bellows = load(RANK=0, WORLD_SIZE=4)
    checkpoint = bellows.resume()
    assert checkpoint == (str(tmp_path / "checkpoints" / "step-000000000010"), 10, 160, 2)
    assert len(checkpoint.shards()) == 2
    assert bellows.position(11) == 176

    def never(directory):
        raise AssertionError("that step is there already")

    bellows.save(10, never)


def test_the_newest_complete_one_is_resumed(load, tmp_path):
    for step in (10, 20):
        for rank in (0, 1):
            load(RANK=rank, WORLD_SIZE=2).save(step, write)
    load(RANK=0, WORLD_SIZE=2).save(30, write)  # rank 1 was killed before its part
    load(RANK=1, WORLD_SIZE=2).save(40, write)  # rank 0 was
    torn = tmp_path / "checkpoints" / "step-000000000050"
    (torn / "rank-00000").mkdir(parents=True)
    (torn / "step.json").write_text('{"step": 50,')
    assert load().resume().step == 20


def test_a_checkpoint_given_by_hand(load, tmp_path):
    (tmp_path / "c" / "rank-00000").mkdir(parents=True)
    manifest = {"format": 1, "step": 7, "samples": 70, "world_size": 1, "files": []}
    (tmp_path / "c" / "MANIFEST.json").write_text(json.dumps(manifest))
    assert load(BELLOWS_RESUME_FROM="c").resume() == (str(tmp_path / "c"), 7, 70, 1)
    with pytest.raises(ValueError, match="no manifest there"):
        load(BELLOWS_RESUME_FROM=str(tmp_path)).resume()


def test_a_failing_write_leaves_the_older_one(load, tmp_path):
    bellows = load()
    bellows.save(1, write)
    with pytest.raises(ZeroDivisionError):
        bellows.save(2, lambda directory: 1 / 0)
    assert load().resume().step == 1


def test_training_again_in_the_same_place_replaces(load, tmp_path):
    load().save(1, write)
    load().save(1, lambda directory: None)
    assert os.listdir(load().resume().shard(0)) == []


STOPPABLE = """
import bellows
step = 0
while not bellows.should_stop(step):
    if step == 0:
        print("training", flush=True)
    step += 1
bellows.save(step, lambda directory: None)
"""


def test_sigterm_stops_after_a_step(tmp_path):
    environ = script_environment(BELLOWS_CHECKPOINT_DIR=tmp_path)
    with subprocess.Popen([PYTHON, "-c", STOPPABLE], env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"training\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert [name[:5] for name in os.listdir(str(tmp_path))] == ["step-"]


def test_a_handler_of_the_script_stays(tmp_path):
    script = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(9))" + STOPPABLE
    environ = script_environment(BELLOWS_CHECKPOINT_DIR=tmp_path)
    with subprocess.Popen([PYTHON, "-c", script], env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"training\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 9


def test_a_batch_without_samples_is_refused(load):
    with pytest.raises(ValueError, match="BELLOWS_BATCH_SIZE='0': use a whole number, 1 or more"):
        load(BELLOWS_BATCH_SIZE=0)
