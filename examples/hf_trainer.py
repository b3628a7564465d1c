#!/usr/bin/env python3
"""Hugging Face's Trainer, elastic: for a loop that is not your own.

    python3 examples/hf_trainer.py --steps 60                      # by itself
    bellows run --min 1 --max 8 -- python3 examples/hf_trainer.py  # elastic

It needs torch, transformers and accelerate. `Elastic` below is all there is to
it: a callback to copy into your script. The model is a small one that begins
from nothing and the text is made here, so there is nothing to download.

The Trainer counts steps as Bellows does, and of a run that was stopped it skips
what it has seen, batch by batch of all workers: so the batch of one worker is
set to its part of the global batch, and each step has the same samples
whatever the number of workers.
"""

import argparse
import os
import sys

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

# For runs without Bellows, from a checkout; Bellows puts its own first.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows


class Elastic(TrainerCallback):
    """Stops the Trainer where Bellows says, and saves where Trainer.train resumes from."""

    def __init__(self, save_every):
        self.save_every = save_every
        self.trainer = None  # set once there is one

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step < state.max_steps and bellows.should_stop(state.global_step):
            control.should_training_stop = True
        elif state.global_step % self.save_every == 0:
            self.save(state, **kwargs)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            bellows.report(state.global_step, loss=float(logs["loss"]))

    def on_train_end(self, args, state, control, **kwargs):
        self.save(state, **kwargs)

    def save(self, state, optimizer=None, lr_scheduler=None, **_):
        def write(directory):
            if bellows.rank() != 0:  # the state is the same on all ranks
                return
            self.trainer.save_model(directory)
            torch.save(optimizer.state_dict(), os.path.join(directory, "optimizer.pt"))
            torch.save(lr_scheduler.state_dict(), os.path.join(directory, "scheduler.pt"))
            state.save_to_json(os.path.join(directory, "trainer_state.json"))

        bellows.save(state.global_step, write)


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
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        )  # fmt: skip
    )

    elastic = Elastic(own.save_every)
    trainer = Trainer(
        model=model,
        train_dataset=Counting(8192),
        callbacks=[elastic],
        args=TrainingArguments(
            output_dir="checkpoints/hf_trainer",  # nothing is written there
            max_steps=own.steps,
            per_device_train_batch_size=bellows.batch_size() // bellows.world_size(),
            learning_rate=1e-3,
            logging_steps=own.log_every,
            save_strategy="no",  # Elastic saves
            report_to=[],
            disable_tqdm=True,
            use_cpu=not gpu,
            ddp_backend="gloo" if bellows.world_size() > 1 and not gpu else None,
        ),
    )
    elastic.trainer = trainer
    checkpoint = bellows.resume()
    trainer.train(resume_from_checkpoint=checkpoint.shard(0) if checkpoint else None)


if __name__ == "__main__":
    main()
