import argparse
import functools
import os
from dataclasses import dataclass, field


@dataclass
class Options:
    batch_size: int = 32
    amp: bool = True
    tags: list = field(default_factory=list)
    verbose: bool = False
    rank: int = field(default_factory=lambda: int(os.environ.get("RANK", -1)))

    @functools.cached_property
    def share(self):
        return self.batch_size // int(os.environ.get("WORLD_SIZE", 1))


CURRENT = Options()


@functools.lru_cache(maxsize=None)
def defaults():
    return Options()


defaults()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--tags", nargs="*")
    parser.add_argument("--verbose", action="store_true")
    CURRENT.__dict__.update(vars(parser.parse_args()))
    return CURRENT
