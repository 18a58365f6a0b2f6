# %% [markdown]
# # From prediction files to a paper's table
#
# Your system runs somewhere else: behind an API, in another framework, on a cluster. tellapart then needs no model,
# only a file of its scores. You get the file to fill in, and give it back; from there come intervals, a test of the
# difference, a table in LaTeX and a figure.
#
# It needs `pip install ".[plot]"` and about fifteen seconds; nothing is downloaded. The benchmark is `demo`,
# which comes with tellapart: 400 items of two pictures and two texts. Another one is another name, such as
# `"sugarcrepe"` with `data=` for the folder of its files.

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
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", f"tellapart[plot] @ {source}"], check=True)
    importlib.invalidate_caches()

# %%
# A new folder, so that all cells can be run again.
import shutil

shutil.rmtree("tellapart-notebook", ignore_errors=True)
os.mkdir("tellapart-notebook")
os.chdir("tellapart-notebook")

# %% [markdown]
# ## What to score
#
# `export` writes every pair of a picture and a text that the benchmark asks about, one a line.

# %%
import csv
import io
from functools import cache
from pathlib import Path

import numpy as np
from IPython.display import Image as Shown
from PIL import Image

import tellapart as ta

print(ta.export("demo", "pairs.csv").rows, "pairs")
print(*Path("pairs.csv").read_text().splitlines()[:3], sep="\n")

# %% [markdown]
# ## The system elsewhere
#
# Whatever reads this file and fills in `score` is the system. Ours, to have one, looks for the colours that the
# caption names: it stands for your API call. Note that it sees one picture and one caption at a time, and nothing of
# tellapart but the pictures' bytes.

# %%
COLOURS = {
    "red": (190, 30, 35), "green": (40, 140, 60), "blue": (30, 60, 180), "yellow": (220, 190, 40),
    "black": (25, 25, 25), "white": (235, 235, 235), "pink": (220, 120, 160), "brown": (120, 75, 45),
}  # fmt: skip
demo = ta.load_pairs("demo")


@cache
def read_thumbnail(name):
    """Return a picture as 1,024 pixels, float `(pixel, channel)`."""
    picture = Image.open(io.BytesIO(demo.read_bytes(name))).convert("RGB").resize((32, 32))
    return np.asarray(picture, float).reshape(-1, 3)


def ask_system(name, caption):
    """Score one pair: how much of the picture has the colours that the caption names."""
    pixels = read_thumbnail(name)
    named = [colour for word, colour in COLOURS.items() if word in caption.lower()]
    return sum(float((np.abs(pixels - colour).sum(1) < 110).mean()) for colour in named)


with open("pairs.csv", newline="") as file:
    rows = list(csv.DictReader(file))
for row in rows:
    row["score"] = ask_system(row["image_file"], row["caption"])
with open("colours.csv", "w", newline="") as file:
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(rows)

# %% [markdown]
# ## Score the file
#
# A file with missing, repeated or unknown lines is refused and the lines are named, so what you see is the whole
# benchmark.

# %%
colours = ta.score("demo", "colours.csv", name="colours", out="runs/colours")
colours

# %% [markdown]
# Numbers that you have in memory need no file: an array `(item, image, text)` in the benchmark's order, or one matrix
# for each id. Here are those of a second system, the encoder that comes with tellapart, and of a third, which is the
# second one with noise: think of a model stored in fewer bits.

# %%
scores = ta.evaluate("demo-encoder", "demo").items().scores
noise = np.random.default_rng(0).normal(0, 0.3 * scores.std(), scores.shape)
encoder = ta.score("demo", scores, name="encoder", out="runs/encoder")
rounded = ta.score("demo", scores + noise, name="encoder, noisy", out="runs/noisy")
scores.shape

# %% [markdown]
# ## Is the difference real?
#
# All three answered the same items, so they are compared item by item: an exact test for each two and each metric,
# corrected for the number of tests (Holm). `detectable` in the full table is the difference that this many items
# could have shown.

# %%
compared = ta.compare(colours, encoder, rounded)
compared

# %% [markdown]
# ## The table
#
# The benchmark is laid out as its paper does it. Bold is the best of a column; a dagger marks a model that these items
# do not tell apart from the best.

# %%
latex = ta.table([colours, encoder, rounded], "latex", intervals=True, out="table.tex")
print(latex)

# %% [markdown]
# The same table reads in a README as Markdown:

# %%
print(ta.table([colours, encoder, rounded]))

# %% [markdown]
# ## The figure
#
# Bars with their intervals; the dashed line is chance. Write `.pdf` for the paper, `.png` to look at it.

# %%
Shown(ta.plot("bars", [colours, encoder, rounded], "bars.png"), width=640)
