# %% [markdown]
# # Fine-tune open_clip and watch minimal pairs
#
# A loss that falls does not show whether a model learns which of two things is red. Here an open_clip model is trained
# in a plain loop, and a probe measures minimal pairs before the first step, every 20 steps, and after the last: with
# intervals, chance and ties, and without changing the training.
#
# It needs `pip install ".[models,plot]"` and half a minute on a CPU; nothing is downloaded. With your model,
# replace the tiny one by `open_clip.create_model_and_transforms(...)`.

# %%
# Installs tellapart where it is missing, as on Colab.
import importlib.util
import os
import subprocess
import sys

if importlib.util.find_spec("tellapart") is None:
    source = os.environ.get("TELLAPART_SOURCE", "git+https://github.com/OWNER/tellapart")
    if "/OWNER/" in source:
        sys.exit("no tellapart: run `%env TELLAPART_SOURCE=git+https://...` with its repository, then this cell again")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", f"tellapart[models,plot] @ {source}"], check=True)
    importlib.invalidate_caches()

# %%
import matplotlib.pyplot as plt
import open_clip
import torch
from PIL import Image

import tellapart as ta

demo = ta.load_pairs("demo")
colours = [place for place, item in enumerate(demo.items) if item.tags["aspect"] == "attribute"]
seen, held_out = demo.select(colours[:70]), demo.select(colours[70:])

# %% [markdown]
# The pairs are the demo's rendered kitchens in which an attribute changes, such as a colour. The model sees 70 of them;
# the other 30 are held out. It is small, and its weights are random.

# %%
torch.manual_seed(0)
vision = {"image_size": 32, "patch_size": 8, "width": 64, "layers": 2, "head_width": 16}
text = {"context_length": 24, "vocab_size": 49408, "width": 64, "heads": 4, "layers": 2}
model = open_clip.CLIP(embed_dim=32, vision_cfg=vision, text_cfg=text)
preprocess = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(size=32), is_train=False)
tokenizer = open_clip.SimpleTokenizer(context_length=24)
images = torch.stack([preprocess(Image.fromarray(seen.pixels(name))) for item in seen.items for name in item.images])
texts = tokenizer([text for item in seen.items for text in item.texts])

# %%
probe = ta.PairProbe(held_out, every=20, preprocess=preprocess, tokenizer=tokenizer)
optimiser, loss = torch.optim.AdamW(model.parameters(), lr=1e-3), open_clip.ClipLoss()
for _step, _batch in probe.follow(model, range(80)):
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
    steps, values = zip(*((step, found[metric]) for step, found in probe.history.items()), strict=True)
    plt.plot(steps, [100 * value.value for value in values], marker="o", label=metric)
    plt.fill_between(steps, [100 * one.low for one in values], [100 * one.high for one in values], alpha=0.15)
plt.xlabel("step"), plt.ylabel("percent of held-out pairs"), plt.legend()
plt.show()
