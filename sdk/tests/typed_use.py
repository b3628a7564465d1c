"""A script as its author writes it: `make examples` has mypy --strict check it against the installed wheel."""

import random
from typing import List, Optional

import bellows

STEPS = 100


def write(directory: str) -> None:
    with open(directory + "/state", "w", encoding="utf-8") as f:
        f.write("state")


def train(dataset_size: int) -> float:
    bellows.standalone(batch_size=64, directory="checkpoints")
    checkpoint: Optional[bellows.Checkpoint] = bellows.resume()
    step: int = checkpoint.step if checkpoint else 0
    path: str = checkpoint.shard(0) if checkpoint else ""
    loss = float(len(path))
    for batch in bellows.Batches(step, STEPS, dataset_size):
        taken: List[int] = batch
        loss += len(taken)
    for parts in bellows.steps(bellows.MicroBatches(step, STEPS, dataset_size)):
        loss += sum(len(part) for part in parts)
    while step < STEPS and not bellows.should_stop(step):
        number: int = bellows.seed(step)
        for part in bellows.micro_batches(step, dataset_size):
            generator: random.Random = bellows.stream(step, part).random()
            loss += part.weight * sum(part) * generator.random() * bellows.lr_scale(step)
        step += 1
        bellows.report(step, samples=bellows.position(step), loss=loss + number)
    try:
        bellows.save(step, write)
    except bellows.SaveError as err:
        print(err, bellows.rank(), bellows.world_size(), bellows.local_rank(), bellows.batch_size())
    return loss
