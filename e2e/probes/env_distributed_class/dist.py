import os
from dataclasses import dataclass, field


@dataclass
class Config:
    rank: int = field(default_factory=lambda: int(os.environ.get("RANK", 0)))
    world: int = int(os.environ.get("WORLD_SIZE", 1))
    local: int = int(os.environ.get("LOCAL_RANK", 0))
    resume: str = os.environ.get("BELLOWS_RESUME_FROM", "")
    save: str = os.environ.get("BELLOWS_CHECKPOINT_DIR", "")
    visible: int = len([d for d in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d])


CONFIG = Config()
is_distributed = CONFIG.world > 1 and {"RANK", "MASTER_ADDR"} <= set(os.environ)
