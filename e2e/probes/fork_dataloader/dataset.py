import torch

SCALE = 1


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return float(i * i * SCALE) + torch.rand(1).item() / 4
