#!/usr/bin/env python3
"""Hugging Face's Trainer, elastic: for a loop that is not your own.

    python3 examples/hf_trainer.py --steps 60                      # by itself
    bellows run --min 1 --max 8 -- python3 examples/hf_trainer.py  # elastic

It needs torch, transformers and accelerate. The model is a small one that begins
from nothing and the text is made here, so there is nothing to download. The
lines that make it elastic are marked with `# elastic`.
"""

import argparse
import os
import sys

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

# For runs without Bellows, from a checkout; Bellows puts its own first.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows


class Counting(Dataset):
    """Sequences that count upwards: which number comes next is easy to learn."""

    def __init__(self, count, length=16, numbers=64):
        starts = torch.randint(numbers, (count, 1), generator=torch.Generator().manual_seed(7))
        self.text = (starts + torch.arange(length)) % numbers

    def __len__(self):
        return len(self.text)

    def __getitem__(self, i):
        return {"input_ids": self.text[i], "labels": self.text[i]}


def main():
    parser = argparse.ArgumentParser(description="learn to count")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--log-every", type=int, default=10)
    own = parser.parse_args()
    bellows.standalone(directory="checkpoints/hf_trainer")
    gpu = torch.cuda.is_available()
    if not gpu:
        torch.set_num_threads(1)  # the workers of one machine share its processors
    torch.manual_seed(1)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=64, n_positions=16, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
            attn_pdrop=0,
        )  # fmt: skip
    )

    trainer = Trainer(
        model=model,
        train_dataset=Counting(8192),
        args=TrainingArguments(
            output_dir="checkpoints/hf_trainer",  # nothing is written there
            max_steps=own.steps,
            learning_rate=1e-3,
            logging_steps=own.log_every,
            report_to=[],
            disable_tqdm=True,
            use_cpu=not gpu,
            ddp_backend="gloo" if bellows.world_size() > 1 and not gpu else None,
            **bellows.trainer_arguments(),  # elastic
        ),
    )
    bellows.trainer_train(trainer, own.save_every)  # elastic


if __name__ == "__main__":
    main()
