# %% [markdown]
# # Build, audit, annotate
#
# You have pictures with captions and want a test from them: beside each true caption a false one that differs in one
# word. Three steps make it a test that one can trust: build it by rule, audit it for shortcuts, and have people look
# at it.
#
# It needs `pip install .` and about fifteen seconds; nothing is downloaded.

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
# ## Captions
#
# Yours come as a CSV or JSON lines file with the columns `image` and `caption`. To have some at once, we take a few
# pictures out of the demo benchmark, each with its true caption.

# %%
import base64
import csv
import html
import json
from pathlib import Path

from IPython.display import HTML

import tellapart as ta

demo = ta.load_pairs("demo")
Path("images").mkdir()
lines = []
for item in demo.items:
    if item.tags["aspect"] != "counting":
        name = Path(item.images[0]).name
        Path("images", name).write_bytes(demo.read_bytes(item.images[0]))
        lines.append(json.dumps({"image": name, "caption": item.texts[0]}))
Path("captions.jsonl").write_text("\n".join(lines))
print(len(lines), "captions, such as", lines[7])

# %% [markdown]
# ## Build
#
# A recipe says what is built and from what. `negatives` changes captions by rule, as SugarCrepe does: it exchanges an
# object, an attribute or a relation for another of its kind.

# %%
Path("recipe.toml").write_text("""
name = "kitchen"
builder = "negatives"
seed = 1

[options]
captions = "captions.jsonl"
images = "images"
kinds = ["replace_obj", "replace_att", "replace_rel", "swap_att"]
""")
built = ta.build("recipe.toml", "sets/kitchen")
built

# %% [markdown]
# Nothing is dropped in silence: what a rule could not do is counted, with the reason. A rule that is unsure leaves the
# caption alone, so that fewer items than candidates are left.

# %%
for item in built.pairs.items[:24:6]:
    print(item.tags["subset"], *item.texts, sep="\n    ")

# %% [markdown]
# ## Audit
#
# Could somebody answer without looking at the pictures? The audit tries: by length, by words, by the captions alone,
# and it looks for duplicates.

# %%
found = ta.audit("folder:sets/kitchen", to="audit")
found

# %% [markdown]
# `detectable: captions, by words` is how often true captions are told from false ones by their words alone, without a
# picture. A finding that is a warning names the words that give it away.

# %%
for finding in found.record.findings:
    if finding.verdict != "pass":
        print(finding.title, "|", finding.says)

# %% [markdown]
# A rule draws objects and attributes from all that it knows, and captions of one kind of scene know few of them: a word
# that no true caption holds must be the false one. Opposite relations and exchanged attributes bring in no such word,
# so we build again from these two.

# %%
recipe = (
    Path("recipe.toml").read_text().replace('"replace_obj", "replace_att", ', "").replace('"kitchen"', '"kitchen-2"')
)
Path("recipe-2.toml").write_text(recipe)
better = ta.build("recipe-2.toml", "sets/kitchen-2")
again = ta.audit("folder:sets/kitchen-2", to="audit-2")
again

# %% [markdown]
# Both audits side by side, with their numbers of items:

# %%
for kinds, audit in (("four kinds", found), ("two kinds", again)):
    for finding in audit.record.findings:
        if finding.name == "detectable: captions, by words":
            print(f"{kinds}: {finding.n} items, {finding.value:.0%} told by words: {finding.verdict}, {finding.says}")

# %% [markdown]
# Each warning says what it would take. More captions narrow an interval, and give a tag more items of each value.
#
# The data card says all this to whoever uses the set: where the items come from, what was rejected, each check with
# its threshold, and examples. It is one page of HTML; here it is in a frame.


# %%
def show_page(page, height):
    """Show a page of HTML in a frame of its own."""
    style = f"width: 100%; height: {height}px; border: 1px solid #999"
    return HTML(f'<div><iframe srcdoc="{html.escape(page)}" style="{style}"></iframe></div>')


show_page(again.card(), 500)

# %% [markdown]
# ## Annotate
#
# No rule knows what is in the picture: the false caption may be true of it, too. So people look. `annotate_export`
# deals a survey: each annotator gets a project of Label Studio, and the same as a spreadsheet.

# %%
study = ta.annotate_export("i2t", "folder:sets/kitchen-2", "study", annotators="ann,bob", sample=6)
sorted(str(path) for path in Path("study/sheets").iterdir())

# %% [markdown]
# These are the first rows of Ann's sheet, with their pictures. `tellapart annotate import` and `tellapart annotate
# agree` take her answers from there, or from an export of Label Studio.

# %%
with Path("study/sheets/ann.csv").open(encoding="utf-8") as file:
    rows = list(csv.DictReader(file))[:3]
shown = ""
for row in rows:
    picture = base64.b64encode(Path("study/sheets", row["image_0"]).read_bytes()).decode()
    options = "<br>".join(html.escape(f"{name[-1].upper()}: {row[name]}") for name in ("option_a", "option_b"))
    shown += f'<tr><td><img src="data:image/webp;base64,{picture}" alt=""></td><td>{options}</td></tr>'
HTML(f"<table>{shown}</table>")
