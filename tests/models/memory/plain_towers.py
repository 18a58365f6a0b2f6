"""A plain module with `encode_image` and `encode_text`, and functions that prepare its inputs."""

import numpy as np

from tellapart.models.torch.backend import import_torch

torch = import_torch()


class Towers(torch.nn.Module):
    """A plain module: means of the pixels and counts of letters, through layers with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.visual = torch.nn.Sequential(torch.nn.Linear(48, 16), torch.nn.Dropout(0.5))
        self.text = torch.nn.Sequential(torch.nn.Embedding(128, 16), torch.nn.Dropout(0.5))
        self.frozen = torch.nn.Dropout(0.5).eval()

    def encode_image(self, images):
        return self.frozen(self.visual(images.flatten(1)))

    def encode_text(self, tokens):
        return self.text(tokens).mean(dim=1)


def preprocess(image):
    return torch.from_numpy(np.asarray(image.resize((4, 4)), np.float32)).permute(2, 0, 1) / 255


def tokenizer(texts: list[str]):
    return torch.tensor([[ord(letter) % 128 for letter in text.ljust(40)] for text in texts])


PREPARED = {"preprocess": preprocess, "tokenizer": tokenizer}
