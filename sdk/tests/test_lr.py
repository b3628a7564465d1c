"""The learning rate where the batch ranges: by the owner's rule, and only by that."""

import pytest


def scales(bellows, *steps):
    return [bellows.lr_scale(step) for step in steps]


def test_nothing_without_a_rule(load):
    assert scales(load(BELLOWS_BATCH_SIZE=256, BELLOWS_BASE_BATCH_SIZE=64), 0, 9) == [1, 1]
    assert scales(load(BELLOWS_BATCH_SIZE=256, BELLOWS_BASE_BATCH_SIZE=64, BELLOWS_LR_RULE="none"), 0) == [1]


@pytest.mark.parametrize("rule, scale", [("linear", 4), ("sqrt", 2)])
def test_rules(load, rule, scale):
    assert scales(load(BELLOWS_BATCH_SIZE=256, BELLOWS_BASE_BATCH_SIZE=64, BELLOWS_LR_RULE=rule), 0, 9) == [scale] * 2
    assert scales(load(BELLOWS_BASE_BATCH_SIZE=None), 0) == [1]


def test_an_unknown_rule_is_named(load):
    with pytest.raises(ValueError, match="BELLOWS_LR_RULE='cubic': use linear, sqrt or none"):
        load(BELLOWS_LR_RULE="cubic").lr_scale(0)


def generation(load, tmp_path, batch, last, steps, **names):
    """One world from the newest checkpoint on; return its factors and save after the last step."""
    bellows = load(
        BELLOWS_BATCH_SIZE=batch, BELLOWS_BASE_BATCH_SIZE=64, BELLOWS_LR_RULE="linear", BELLOWS_LR_WARMUP=4,
        BELLOWS_CHECKPOINT_DIR=tmp_path / "c", **names,
    )  # fmt: skip
    bellows.resume()
    found = scales(bellows, *steps)
    bellows.save(last, lambda directory: None)
    return found


def test_a_change_is_warmed_up_and_goes_on_over_a_rescale(load, tmp_path):
    assert generation(load, tmp_path, 64, 3, range(3)) == [1, 1, 1]
    assert generation(load, tmp_path, 128, 5, range(3, 5)) == [1.25, 1.5]
    assert generation(load, tmp_path, 128, 6, range(5, 6)) == [1.75]  # another world, the same batch
    assert generation(load, tmp_path, 256, 11, range(6, 11)) == [1.75 + 2.25 / 4 * n for n in (1, 2, 3, 4)] + [4]
    assert generation(load, tmp_path, 64, 13, range(11, 13)) == [3.25, 2.5]


def test_a_first_start_needs_no_warm_up(load, tmp_path):
    assert generation(load, tmp_path, 256, 3, range(3)) == [4, 4, 4]


def test_a_rule_declared_later_begins_at_the_rate_there_was(load, tmp_path):
    load(BELLOWS_CHECKPOINT_DIR=tmp_path / "c", BELLOWS_BATCH_SIZE=256).save(2, lambda directory: None)
    assert generation(load, tmp_path, 256, 4, (2, 3, 9)) == [1.75, 2.5, 4]


def test_a_damaged_note_is_named(load, tmp_path):
    generation(load, tmp_path, 64, 3, range(3))
    (tmp_path / "c" / "step-000000000003" / "rank-00000" / "lr.json").write_text("{")
    with pytest.raises(ValueError, match="lr.json of rank 0"):
        generation(load, tmp_path, 128, 5, range(3, 5))
