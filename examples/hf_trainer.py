#!/usr/bin/env python3
"""Hugging Face's Trainer, elastic: for a loop that is not your own.

    python3 examples/hf_trainer.py --steps 60                      # by itself
    bellows run --min 1 --max 8 -- python3 examples/hf_trainer.py  # elastic

It needs torch, transformers and accelerate. The model is a small GPT-2 that begins
from nothing and the text is made here, so there is nothing to download; `--model`
chooses another small one: mlp, transformer or cnn. The lines that make it elastic are marked with `# elastic`.
"""

import os
import sys

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

# For runs without Bellows, from a checkout; Bellows puts its own first.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows
import small


class Points(nn.Module):
    """A model of numbers, as Trainer wants it: it returns its loss."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, labels):
        found = self.net(x)
        return {"loss": nn.functional.mse_loss(found, labels), "logits": found}


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
    own = small.arguments(("gpt2", *small.MODELS))
    bellows.standalone(directory="checkpoints/hf_trainer")
    gpu = torch.cuda.is_available()
    if not gpu:
        torch.set_num_threads(1)  # the workers of one machine share its processors
    if own.model == "gpt2":
        torch.manual_seed(1)  # the same weights on all ranks
        config = GPT2Config(vocab_size=64, n_positions=16, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0, attn_pdrop=0)
        model, data = GPT2LMHeadModel(config), Counting(own.samples)
    else:
        net, pairs = small.learn(own)
        model, data = Points(net), [{"x": x, "labels": y} for x, y in pairs]

    trainer = Trainer(
        model=model,
        train_dataset=data,
        args=TrainingArguments(
            output_dir="checkpoints/hf_trainer",  # nothing is written there
            max_steps=own.steps,
            learning_rate=1e-3,
            lr_scheduler_type="cosine",
            logging_steps=10,
            report_to=[],
            disable_tqdm=True,
            use_cpu=not gpu,
            ddp_backend="gloo" if bellows.world_size() > 1 and not gpu else None,
            **bellows.trainer_arguments(),  # elastic
        ),
    )
    bellows.trainer_train(trainer)  # elastic


if __name__ == "__main__":
    main()
