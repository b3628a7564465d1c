"""save: a directory that is complete or not there, and a confirmation or an error."""

import errno
import json
import os

import pytest

from conftest import PATIENCE_S, in_thread


def write(directory):
    with open(os.path.join(directory, "model.pt"), "w") as f:
        f.write("weights")


def everything(path):
    """All files and directories below a path, relative to it."""
    return sorted(
        os.path.relpath(os.path.join(at, name), str(path))
        for at, directories, files in os.walk(str(path))
        for name in directories + files
    )


def test_where_it_saves_and_what_it_tells(worker, tmp_path):
    bellows, shim = worker(rank=3, BELLOWS_RESUME_STEP=100, BELLOWS_RESUME_SAMPLES=5000)
    saving = in_thread(bellows.save, 120, write)
    step = str(tmp_path / "g00000001" / "step-000000000120")
    assert shim.expect("saved") == {"step": 120, "samples": 5000 + 20 * 8, "dir": step}
    assert everything(step) == ["rank-00003", "rank-00003/model.pt"]
    shim.send({"saved_ok": 120})
    saving()


def test_samples_can_be_given(worker):
    bellows, shim = worker()
    saving = in_thread(bellows.save, 1, write, 77)
    assert shim.expect("saved")["samples"] == 77
    shim.send({"saved_ok": 1})
    saving()


def test_a_step_is_saved_once(worker):
    bellows, shim = worker(BELLOWS_RESUME_FROM="/c/g1/step-000000000100", BELLOWS_RESUME_STEP=100, BELLOWS_RESUME_SAMPLES=800)
    calls = []

    def count(directory):
        calls.append(directory)

    bellows.save(100, count)  # what it resumed from is there
    assert not calls
    saving = in_thread(bellows.save, 110, count)
    shim.expect("saved")
    shim.send({"saved_ok": 110})
    saving()
    bellows.save(110, count)
    assert len(calls) == 1
    saving = in_thread(bellows.save, 111, count)
    assert shim.expect("saved")["step"] == 111
    shim.send({"saved_ok": 111})
    saving()


def test_write_that_fails_leaves_nothing(worker, tmp_path):
    bellows, shim = worker()

    def half(directory):
        write(directory)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        bellows.save(5, half)
    assert everything(tmp_path / "g00000001" / "step-000000000005") == []
    shim.expect("no_room")
    saving = in_thread(bellows.save, 5, write)
    shim.expect("saved")
    shim.send({"saved_ok": 5})
    saving()


def test_what_a_killed_process_left_is_not_mixed_in(worker, tmp_path):
    bellows, shim = worker()
    litter = tmp_path / "g00000001" / "step-000000000005" / ".rank-00000.tmp"
    litter.mkdir(parents=True)
    (litter / "half").write_text("x")
    saving = in_thread(bellows.save, 5, write)
    shim.expect("saved")
    shim.send({"saved_ok": 5})
    saving()
    assert everything(tmp_path / "g00000001" / "step-000000000005") == ["rank-00000", "rank-00000/model.pt"]


def test_an_error_of_the_shim_is_an_error_of_the_save(worker):
    bellows, shim = worker()
    saving = in_thread(bellows.save, 5, write)
    shim.expect("saved")
    shim.send({"error": "the disk of the journal is full"})
    with pytest.raises(bellows.SaveError, match="journal is full"):
        saving()


def test_an_error_before_is_not_held_against_it(worker):
    bellows, shim = worker()
    shim.send({"error": "something else"})
    link = bellows._run.link
    with link._changed:
        assert link._changed.wait_for(lambda: link._refused is not None, PATIENCE_S)
    saving = in_thread(bellows.save, 5, write)
    shim.expect("saved")
    shim.send({"saved_ok": 5})
    saving()


def test_saving_again_after_an_error_changes_no_file(worker, tmp_path):
    """The shim may have the first message, and a reader may have the files open."""
    bellows, shim = worker()
    bellows.SAVE_ANSWER_S = 0.05
    with pytest.raises(bellows.SaveError, match="no answer"):
        bellows.save(5, write)
    shim.expect("saved")
    bellows.SAVE_ANSWER_S = PATIENCE_S
    before = os.stat(str(tmp_path / "g00000001" / "step-000000000005" / "rank-00000")).st_ino

    def never(directory):
        raise AssertionError("written twice")

    saving = in_thread(bellows.save, 5, never)
    assert shim.expect("saved")["step"] == 5
    shim.send({"saved_ok": 5})
    saving()
    assert os.stat(str(tmp_path / "g00000001" / "step-000000000005" / "rank-00000")).st_ino == before


def test_a_shim_that_dies_during_a_save(worker):
    bellows, shim = worker()
    saving = in_thread(bellows.save, 5, write)
    shim.expect("saved")
    shim.close()
    with pytest.raises(bellows.SaveError, match="step 5"):
        saving()
    with pytest.raises(bellows.SaveError, match="step 6"):
        bellows.save(6, write)


def test_an_answer_to_an_older_save_is_not_one_to_this(worker):
    bellows, shim = worker()
    saving = in_thread(bellows.save, 6, write)
    shim.expect("saved")
    shim.send({"saved_ok": 5})
    shim.send({"error": "no"})
    with pytest.raises(bellows.SaveError):
        saving()


def test_a_negative_step(worker):
    bellows, _ = worker()
    with pytest.raises(ValueError, match="step -1"):
        bellows.save(-1, write, samples=0)


def test_resume_under_bellows(worker, tmp_path):
    path = tmp_path / "g00000001" / "step-000000000100"
    for name in ("rank-00000", "rank-00001", ".rank-00002.tmp"):
        (path / name).mkdir(parents=True)
    (path / "MANIFEST.json").write_text(json.dumps({"step": 100, "samples": 999, "world_size": 2, "files": []}))
    bellows, _ = worker(BELLOWS_RESUME_FROM=path, BELLOWS_RESUME_STEP=100, BELLOWS_RESUME_SAMPLES=4000)
    checkpoint = bellows.resume()
    assert checkpoint == (str(path), 100, 4000, 2)
    assert [os.path.basename(p) for p in checkpoint.shards()] == ["rank-00000", "rank-00001"]
    assert checkpoint.shard(1) == str(path / "rank-00001")
    with pytest.raises(ValueError, match="ranks 0 to 1"):
        checkpoint.shard(2)
    assert bellows.position(101) == 4008
    with pytest.raises(ValueError, match="resumed at step 100"):
        bellows.indices(0, 10)


def test_nothing_to_resume_under_bellows(worker, tmp_path):
    """Not even what an earlier generation left in the way."""
    (tmp_path / "g00000001" / "step-000000000001" / "rank-00000").mkdir(parents=True)
    bellows, _ = worker(BELLOWS_RESUME_FROM="", BELLOWS_RESUME_STEP="", BELLOWS_RESUME_SAMPLES="")
    assert bellows.resume() is None
    assert bellows.position(0) == 0


def test_reports_are_few_and_the_last_one_arrives(worker, monkeypatch):
    bellows, shim = worker()
    now = [100.0]

    class Clock:
        monotonic = staticmethod(lambda: now[0])

    monkeypatch.setattr(bellows, "time", Clock)
    for step in range(21):
        bellows.report(step, loss=0.5)
        now[0] += 0.25
    bellows.report(21, samples=123, loss=float("nan"))
    for step in (0, 1, 5, 9, 13, 17):  # the first finished step at once: speed is measured from it
        assert shim.expect("progress") == {"step": step, "samples": step * 8, "loss": 0.5}
    assert shim.expect("progress") == {"step": 21, "samples": 123, "loss": None, "loss_is_no_number": True}
    now[0] += 0.25
    bellows.report(22, loss=0.25)
    now[0] += 30.0  # such as for a save
    bellows._run.flush()  # as at exit
    bellows._run.flush()
    assert shim.expect("progress") == {"step": 22, "samples": 22 * 8, "loss": 0.25, "age": 30.0}
    shim.close()
    assert shim.next() is None


def test_a_loss_is_looked_at_only_when_it_is_sent(worker):
    bellows, shim = worker()

    class Tensor:
        looked = 0

        def __float__(self):
            Tensor.looked += 1
            return 1.5

    for step in range(1, 11):
        bellows.report(step, loss=Tensor())
    assert shim.expect("progress")["loss"] == 1.5
    assert Tensor.looked == 1


@pytest.mark.parametrize("broken", [False, True])
def test_the_last_loss_arrives_without_its_graph(worker, monkeypatch, broken):
    bellows, shim = worker()

    class Clock:
        monotonic = staticmethod(lambda: 100.0)

    monkeypatch.setattr(bellows, "time", Clock)

    class Tensor:
        def __init__(self, graph):
            self.graph = graph

        def detach(self):
            return Tensor(graph=None)

        def __float__(self):
            assert self.graph is None
            if broken:
                raise RuntimeError("the device has failed")
            return 1.5

    bellows.report(1, loss=0.5)
    assert shim.expect("progress")["loss"] == 0.5
    bellows.report(2, loss=Tensor(graph="large"))
    assert bellows._run._unsent[0].loss.graph is None
    bellows._run.flush()  # as at exit
    assert shim.expect("progress") == {"step": 2, "samples": 16, "loss": None if broken else 1.5}


class FullDisk(OSError):
    """What a file system says when it has no room."""

    def __init__(self):
        super().__init__(errno.ENOSPC, "No space left on device", "model.pt")


def test_a_full_disk_is_told_and_raised(worker, tmp_path):
    bellows, shim = worker()

    def fail(directory):
        raise FullDisk()

    with pytest.raises(OSError) as raised:
        bellows.save(120, fail)
    assert raised.value.errno == errno.ENOSPC
    told = shim.expect("no_room")
    assert told["step"] == 120 and "No space left on device" in told["reason"]
    assert everything(tmp_path / "g00000001" / "step-000000000120") == []
    saving = in_thread(bellows.save, 120, write)  # the script may go on and try again
    assert shim.expect("saved")["step"] == 120
    shim.send({"saved_ok": 120})
    saving()


def test_other_failures_to_write_are_the_scripts_own(worker):
    bellows, shim = worker()

    def fail(directory):
        raise OSError(errno.EACCES, "Permission denied")

    with pytest.raises(OSError):
        bellows.save(1, fail)
    bellows.report(1)
    assert shim.expect("progress")["step"] == 1


def test_a_file_system_that_fails_for_a_moment_is_told_too(worker):
    bellows, shim = worker()

    def by_number(directory):
        raise OSError(errno.EROFS, "Read-only file system", "model.pt")

    def in_words(directory):
        raise RuntimeError("I/O error: Stale file handle (os error 116)")

    for step, (fail, said) in enumerate([(by_number, "Read-only"), (in_words, "Stale file handle")]):
        with pytest.raises((OSError, RuntimeError)):
            bellows.save(step, fail)
        told = shim.expect("no_room")
        assert told["step"] == step and told["transient"] is True and said in told["reason"]


def test_an_unknown_position_is_not_taken_for_the_beginning(worker):
    bellows, shim = worker(BELLOWS_RESUME_FROM="/c/g1/step-100", BELLOWS_RESUME_STEP=100, BELLOWS_RESUME_SAMPLES="")
    with pytest.raises(ValueError, match="does not say how many samples"):
        bellows.position(100)
    with pytest.raises(ValueError, match="does not say how many samples"):
        bellows.indices(101, 10)
    bellows.report(110)
    assert shim.expect("progress") == {"step": 110, "samples": -1, "loss": None}
    saving = in_thread(bellows.save, 120, write)
    assert shim.expect("saved")["samples"] == -1
    shim.send({"saved_ok": 120})
    saving()


def test_a_full_disk_is_known_by_whatever_was_raised(worker):
    """torch.save and safetensors raise errors of their own."""
    bellows, shim = worker()

    def wrapped(directory):
        try:
            raise FullDisk()
        except OSError:
            raise RuntimeError("unexpected pos 384 vs 306")  # noqa: B904

    def in_words(directory):
        raise RuntimeError("I/O error: No space left on device (os error 28)\nframe #0")

    for step, (fail, said) in enumerate([(wrapped, "model.pt"), (in_words, "(os error 28)")]):
        with pytest.raises(RuntimeError):
            bellows.save(step, fail)
        told = shim.expect("no_room")
        assert told["step"] == step and "No space left on device" in told["reason"] and said in told["reason"]
        assert "frame" not in told["reason"]


def test_a_full_disk_is_tried_where_nothing_says_so(worker, monkeypatch):
    bellows, shim = worker()

    def fail(directory):
        with open(os.path.join(directory, "model.pt"), "wb") as f:
            f.write(b"half")
        raise RuntimeError("unexpected pos 384 vs 306\nframe #0: somewhere")

    def fsync(fd):
        raise FullDisk()

    with pytest.raises(RuntimeError):
        bellows.save(5, fail)  # there is room
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(RuntimeError):
        bellows.save(6, fail)
    said = "No space left on device: RuntimeError: unexpected pos 384 vs 306"
    assert shim.expect("no_room") == {"step": 6, "reason": said}


class Whole:
    """Counts as an int, as numpy's do, and is none to json."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


def test_whole_numbers_of_other_kinds_are_told_as_ints(worker):
    bellows, shim = worker()
    assert bellows.indices(Whole(1), Whole(100), None) == list(range(8, 16))
    assert bellows.position(Whole(2)) == 16
    assert not bellows.should_stop(Whole(1))
    shim.send({"hold": {}})
    assert shim.expect("held") == {"begun": 1}
    shim.send({"stop_after": 1})
    assert bellows.should_stop(Whole(2))
    bellows.report(Whole(2), samples=Whole(16))
    assert shim.expect("progress") == {"step": 2, "samples": 16, "loss": None}
    saving = in_thread(bellows.save, Whole(2), write, Whole(16))
    saved = shim.expect("saved")
    assert (saved["step"], saved["samples"]) == (2, 16)
    shim.send({"saved_ok": 2})
    saving()


@pytest.mark.parametrize("step", [1.0, "1", None])
def test_other_numbers_are_refused_before_anything_happens(worker, tmp_path, step):
    bellows, shim = worker()
    calls = (
        lambda: bellows.should_stop(step),
        lambda: bellows.report(step),
        lambda: bellows.save(step, write),
        lambda: bellows.indices(step, 10),
    )
    for call in calls:
        with pytest.raises(TypeError, match="step .*: use a whole number"):
            call()
    bellows.report(3)
    assert shim.expect("progress")["step"] == 3  # the connection is there
    assert not (tmp_path / "g00000001").exists()
