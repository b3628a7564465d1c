import os
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
VISIBLE = len(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))
PINNED = torch.backends.cuda.is_built()
