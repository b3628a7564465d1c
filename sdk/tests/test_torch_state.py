"""torch_save and torch_load: the state of objects that all ranks hold alike, by name."""

import types

import pytest

torch = pytest.importorskip("torch")


def network(width=4):
    torch.manual_seed(width)
    return torch.nn.Linear(width, 2)


def trained(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, model.in_features)).sum().backward()
    optimizer.step()
    return optimizer


@pytest.fixture
def saved(load, tmp_path):
    """Save a model and its optimizer as one of two ranks each; return them."""
    model = network()
    optimizer = trained(model)
    for rank in (1, 0):
        load(BELLOWS_CHECKPOINT_DIR=tmp_path, RANK=rank, WORLD_SIZE=2).torch_save(3, model=model, optimizer=optimizer)
    return model, optimizer


def test_what_is_saved_is_loaded_by_another_world(saved, load, tmp_path):
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    assert load(BELLOWS_CHECKPOINT_DIR=tmp_path / "none").torch_load(model=model, optimizer=optimizer) == 0
    assert not optimizer.state
    bellows = load(BELLOWS_CHECKPOINT_DIR=tmp_path, RANK=0, WORLD_SIZE=1)
    assert bellows.torch_load(model=model, optimizer=optimizer) == 3 == bellows.resume().step
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), saved[0].parameters()))
    assert optimizer.state_dict()["param_groups"] == saved[1].state_dict()["param_groups"]
    assert torch.equal(optimizer.state[model.weight]["exp_avg"], saved[1].state[saved[0].weight]["exp_avg"])
    assert [p.name for p in (tmp_path / "step-000000000003").glob("rank-*/state.pt")] == ["state.pt"]  # rank 0's alone


def test_a_wrapped_model_has_the_names_of_the_bare_one(saved, load, tmp_path):
    class DistributedDataParallel(torch.nn.Module):  # as torch's is called; that needs other ranks
        def __init__(self, module):
            super().__init__()
            self.module = module

    class OptimizedModule(torch.nn.Module):  # torch.compile's
        def __init__(self, module):
            super().__init__()
            self._orig_mod = module

    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    load(BELLOWS_CHECKPOINT_DIR=tmp_path).torch_load(model=OptimizedModule(DistributedDataParallel(model)), optimizer=optimizer)
    assert torch.equal(model.weight, saved[0].weight)
    load(BELLOWS_CHECKPOINT_DIR=tmp_path / "b").torch_save(1, model=DistributedDataParallel(OptimizedModule(model)))
    assert sorted(torch.load(str(tmp_path / "b" / "step-000000000001" / "rank-00000" / "state.pt"))["model"]) == ["bias", "weight"]


@pytest.mark.parametrize(
    "given, fault",
    [
        (lambda: {"model": network(5)}, "optimizer is only in the checkpoint: give torch_load the names that torch_save was given"),
        (lambda: {"model": network(), "optimizer": network(), "scheduler": network()}, "scheduler is only in the call"),
        (lambda: {"model": network(5), "optimizer": network()}, "cannot be loaded into this model: size mismatch .* checkpoint of another model"),
        (lambda: {"model": network(), "optimizer": torch.optim.Adam([torch.zeros(1)])}, "is it a checkpoint of another model"),
    ],
)
def test_another_checkpoint_is_refused(saved, load, tmp_path, given, fault):
    with pytest.raises(ValueError, match=fault):
        load(BELLOWS_CHECKPOINT_DIR=tmp_path).torch_load(**given())


def test_a_checkpoint_that_was_saved_otherwise_is_refused(load, tmp_path):
    load(BELLOWS_CHECKPOINT_DIR=tmp_path).save(2, lambda directory: None)
    with pytest.raises(ValueError, match="no state.pt of rank 0 there: .* load it as it was saved"):
        load(BELLOWS_CHECKPOINT_DIR=tmp_path).torch_load(model=network())


def test_what_cannot_be_saved_is_refused(load, tmp_path):
    bellows = load(BELLOWS_CHECKPOINT_DIR=tmp_path)
    with pytest.raises(ValueError, match="torch_save: nothing to save or load"):
        bellows.torch_save(1)
    with pytest.raises(TypeError, match="torch_load: step is of int, which has no state_dict"):
        bellows.torch_load(step=1)
    shard = types.SimpleNamespace(to_local=None)
    sharded = types.SimpleNamespace(state_dict=lambda: {"weight": shard}, load_state_dict=None)
    sharded.load_state_dict = lambda state: None
    with pytest.raises(ValueError, match="torch_save: model's weight is sharded over ranks: use bellows.sharded_save"):
        bellows.torch_save(1, model=sharded)
    assert list(tmp_path.iterdir()) == []
