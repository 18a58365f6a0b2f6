# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Fine-tune open_clip and watch minimal pairs
#
# A loss that falls does not show whether a model learns who is on the left. Here an open_clip model is trained in a
# plain loop, and a probe measures minimal pairs before the first step, every 20 steps, and after the last: with
# intervals, chance and ties, and without changing the training.
#
# It needs `pip install ".[models]" matplotlib` and half a minute on a CPU; nothing is downloaded. With your model,
# replace the tiny one by `open_clip.create_model_and_transforms(...)`.

# %%
import io
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import open_clip
import torch
from PIL import Image

import tellapart as ta


def draw(name):
    """Return a PNG file with one colour on the left and another on the right, from a column of pixels on."""
    left, right, column = name.split("-")
    picture, file = Image.new("RGB", (32, 32), left), io.BytesIO()
    picture.paste(right, (int(column), 0, 32, 32))
    picture.save(file, "PNG")
    return file.getvalue()


def make_pairs(column):
    """Return a pair for each two of six colours."""
    two = combinations(["red", "green", "blue", "yellow", "white", "black"], 2)
    items = [
        ta.Item(
            id=f"{a}-{b}",
            images=(f"{a}-{b}-{column}", f"{b}-{a}-{column}"),
            texts=(f"{a} left of {b}", f"{b} left of {a}"),
        )
        for a, b in two
    ]
    return ta.PairSet("colours", tuple(items), Path(), read=draw)


# %% [markdown]
# The model sees pictures that are divided in the middle; those that are divided elsewhere are held out.

# %%
seen, held_out = make_pairs(16), make_pairs(13)
torch.manual_seed(0)
vision = {"image_size": 32, "patch_size": 16, "width": 64, "layers": 2, "head_width": 16}
text = {"context_length": 16, "vocab_size": 49408, "width": 64, "heads": 4, "layers": 2}
model = open_clip.CLIP(embed_dim=32, vision_cfg=vision, text_cfg=text)
preprocess = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(size=32), is_train=False)
tokenizer = open_clip.SimpleTokenizer(context_length=16)
images = torch.stack([preprocess(Image.fromarray(seen.pixels(name))) for item in seen.items for name in item.images])
texts = tokenizer([text for item in seen.items for text in item.texts])

# %%
probe = ta.PairProbe(held_out, every=20, preprocess=preprocess, tokenizer=tokenizer)
optimiser, loss = torch.optim.AdamW(model.parameters(), lr=1e-3), open_clip.ClipLoss()
for _step, _batch in probe.follow(model, range(120)):
    optimiser.zero_grad()
    loss(*model(images, texts)).backward()
    optimiser.step()
probe.table()

# %% [markdown]
# The model that the loop leaves is measured like any other, and compared by its items.

# %%
ta.evaluate(ta.model(model, preprocess=preprocess, tokenizer=tokenizer, name="tuned"), held_out)

# %%
for metric in ("text_score", "image_score", "group_score"):
    rows = [(step, values[metric]) for step, values in probe.history.items()]
    plt.plot([step for step, _ in rows], [100 * value.value for _, value in rows], marker="o", label=metric)
    low, high = ([100 * getattr(value, side) for _, value in rows] for side in ("low", "high"))
    plt.fill_between([step for step, _ in rows], low, high, alpha=0.15)
plt.xlabel("step"), plt.ylabel("percent of held-out pairs"), plt.legend()
plt.show()
