# %% [markdown]
# # My CLIP on my pairs
#
# A CLIP model says how well a picture and a text fit. A *minimal pair* asks it a hard question: two pictures and two
# texts that differ in one thing. Here you write a few such pairs yourself, measure two models on them, and look at
# what they got wrong.
#
# It needs `pip install .` and about ten seconds; nothing is downloaded.

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
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", f"tellapart @ {source}"], check=True)
    importlib.invalidate_caches()

# %%
# A new folder, so that all cells can be run again.
import shutil

shutil.rmtree("tellapart-notebook", ignore_errors=True)
os.mkdir("tellapart-notebook")
os.chdir("tellapart-notebook")

# %% [markdown]
# ## Pairs
#
# Any two pictures with their two captions will do. To have some at once, we draw them: a coloured shape on the left,
# another on the right. In the first kind of pair one colour changes, in the second the shapes change places.

# %%
import io
from itertools import permutations

from PIL import Image, ImageDraw

import tellapart as ta

COLOURS = {"red": (200, 30, 30), "green": (30, 150, 60), "blue": (40, 70, 200), "yellow": (240, 210, 40)}


def draw(left, right):
    """Draw two shapes, each a colour and a kind, side by side; return a PNG file's bytes."""
    picture = Image.new("RGB", (224, 224), (235, 235, 235))
    pen = ImageDraw.Draw(picture)
    for (colour, kind), x in ((left, 20), (right, 124)):
        shape = pen.rectangle if kind == "square" else pen.ellipse
        shape((x, 72, x + 80, 152), fill=COLOURS[colour])
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def caption(left, right):
    """Say what `draw` draws."""
    return f"A {' '.join(left)} on the left of a {' '.join(right)}."


# %% [markdown]
# An item has an id, its pictures, its texts (text 0 is true of picture 0, text 1 of picture 1), and tags, by which
# you can look at the results later.

# %%
items, pictures = [], {}
for first, second, third in permutations(COLOURS, 3):
    left, right = (first, "square"), (second, "circle")
    changes = {"colour": (left, (third, "circle")), "place": (right, left)}
    for change, changed in changes.items():
        name = f"{change}-{first}-{second}-{third}"
        files = (f"images/{name}-0.png", f"images/{name}-1.png")
        pictures |= {files[0]: draw(left, right), files[1]: draw(*changed)}
        texts = (caption(left, right), caption(*changed))
        items.append(ta.Item(id=name, images=files, texts=texts, tags={"change": change}, cluster=f"{first}-{second}"))

ta.write_pair_set("my_pairs", items, pictures, {"licence": "CC0-1.0"})
len(items), items[0].texts, items[1].texts

# %% [markdown]
# Pairs that share a scene are not independent: `cluster` says which, and the error bars below take it into account.

# %% [markdown]
# ## Models
#
# `demo-encoder` is a small real dual encoder that comes with tellapart. It was trained on rendered kitchens, so our
# drawings are new to it. The second model is a function: it is given a picture and a text and returns a number,
# higher for a better match. This one counts pixels of the colours that the text names.


# %%
def colours(image, text):
    """Return the smallest share of the picture among the colours that the text names."""
    pixels = list(image.resize((56, 56)).get_flattened_data())

    def share(colour):
        near = (sum(abs(a - b) for a, b in zip(pixel, COLOURS[colour], strict=True)) < 60 for pixel in pixels)
        return sum(near) / len(pixels)

    return min(share(colour) for colour in COLOURS if colour in text)


colours.fingerprint = "colours-1"  # change it when the function changes: scores are kept under it

# %% [markdown]
# Your own CLIP goes in the same place: `ta.evaluate("path/of/my_clip", ...)` takes a folder of transformers or
# open_clip weights (`pip install ".[models]"`), and any object with `encode_images` and `encode_texts` will do.
#
# ## Measure

# %%
run = ta.evaluate(["demo-encoder", colours, "random"], "folder:my_pairs", out="runs/mine")
run

# %% [markdown]
# The **text score** asks for the right text of each picture, the **image score** for the right picture of each text,
# and the **group score** for both; a tie is never right. In brackets are 95 % intervals, and the last row is what
# guessing gets.
#
# Is one model better than the other, or was it luck? `compare` tests it on the same items.

# %%
compared = ta.compare(run)
compared

# %% [markdown]
# `p_holm` is corrected for the number of tests. In words, at a level of 5 %:

# %%
for metric, first, second, gain, p in zip(
    *(compared[name] for name in ("metric", "model_a", "model_b", "difference", "p_holm")), strict=True
):
    better = second if gain > 0 else first
    apart = f"{better} is better" if p <= 0.05 else f"{first} and {second}: no difference seen; more pairs may show it"
    print(f"{metric}: {apart} (p = {p:.2g})")

# %% [markdown]
# ## Look at what went wrong
#
# If the shapes change places, both captions name the same colours: counting colours scores them alike, and a tie is
# never right. The average hides that, the tag shows it.

# %%
found = run.items(model="colours")
for change in ("colour", "place"):
    right = [score for score, tag in zip(found["group_score"], found["tag:change"], strict=True) if tag == change]
    print(f"{change}: {sum(right):.0f} of {len(right)} groups right")

# %% [markdown]
# An item shows its pictures, its texts, and the score of each text with each picture; a tick marks what is true. Here
# is one that counting colours cannot do ...

# %%
found["place-red-green-blue"]

# %% [markdown]
# ... and the same one, as the encoder sees it. Try your own pictures next: replace what is in `my_pairs`.

# %%
run.items(model="demo-encoder")["place-red-green-blue"]
