"""The notebooks of `examples/notebooks`, executed, as pages of the site: sentences, code, and what the code showed."""

import asyncio
import base64
import os
import re
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parent.parent / "examples" / "notebooks"

#: Kind of picture -> the suffix of its file.
_PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/svg+xml": "svg"}

#: Run before a notebook of torch: its torchvision may be of another build, and tqdm warns of a widget that is missing.
_FIRST = """
import warnings
from tellapart.errors import import_torch
import_torch()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tqdm.auto
"""


def write_notebook(path: Path) -> str:
    """Return the text of the `.ipynb` file of a `.py` notebook: without outputs, with ids that stay."""
    import jupytext
    import nbformat

    notebook = jupytext.read(path)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell["id"], cell["metadata"] = f"cell-{number}", {}
    return str(nbformat.writes(notebook)) + "\n"


def execute(path: Path) -> Any:
    """Run a notebook in an empty folder that is deleted afterwards, with a store of its own; return it with outputs."""
    import jupytext
    from nbclient import NotebookClient

    notebook = jupytext.read(path)
    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        own = {"TELLAPART_CACHE": f"{folder}/.cache", "IPYTHONDIR": f"{folder}/.ipython", "HF_HUB_OFFLINE": "1"}
        if "import torch" in path.read_text(encoding="utf-8"):
            startup = Path(folder, ".ipython", "profile_default", "startup", "00-first.py")
            startup.parent.mkdir(parents=True)
            startup.write_text(_FIRST, encoding="utf-8")
        source = str(NOTEBOOKS.parent.parent / "src")
        searched = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
        client = NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": folder}})
        # Not its `execute`, which leaves an event loop open.
        asyncio.run(client.async_execute(env={**os.environ, **own, "PYTHONPATH": searched}))
    return notebook


def notebook_pages() -> dict[str, str | bytes]:
    """Return a page for each notebook, and the files of its pictures, by their names in the site."""
    pages: dict[str, str | bytes] = {}
    for path in sorted(NOTEBOOKS.glob("*.py")):
        cells = execute(path).cells
        _check_outputs(path, [cell.outputs for cell in cells if cell.cell_type == "code"])
        parts: list[str] = []
        for number, cell in enumerate(cells):
            if cell.cell_type == "markdown":
                parts.append(cell.source)
                continue
            parts.append(f"```python\n{cell.source}\n```")
            for k, output in enumerate(cell.outputs):
                if output.get("data", {}).get("text/html") == "":  # a bar that is gone
                    continue
                shown, files = _show(output, f"{path.stem}-{number}-{k}")
                parts.append(shown)
                pages |= {f"notebooks/{name}": content for name, content in files.items()}
        file = f"../../examples/notebooks/{path.stem}"
        source = f"[This notebook as a file]({file}.ipynb), and [as Python]({file}.py)."
        pages[f"notebooks/{path.stem}.md"] = "\n\n".join([*parts, source]) + "\n"
    return pages


def _check_outputs(path: Path, outputs: list[list[Any]]) -> None:
    shown = [output for cell in outputs for output in cell]
    if warned := [one.text for one in shown if one.output_type == "stream" and one.name == "stderr"]:
        raise ValueError(f"{path}: a cell writes to stderr: {warned[0]}")
    datas = [output.get("data", {}) for output in outputs[-1]]
    if not any("image/png" in data or "data:image/" in data.get("text/html", "") for data in datas):
        raise ValueError(f"{path}: the last cell shows no picture")
    text = "".join(output.get("data", {}).get("text/html", "") for output in shown)
    if text.count("<iframe ") != text.count("</iframe>"):
        raise ValueError(f"{path}: an open iframe takes the rest of the site's page")


def _show(output: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """Return an output as Markdown, and the picture's file if it is one."""
    data = output.get("data", {})
    for kind, suffix in _PICTURES.items():
        if kind in data:
            content = data[kind].encode() if suffix == "svg" else base64.b64decode(data[kind])
            return f"![What the cell draws]({name}.{suffix})", {f"{name}.{suffix}": content}
    if "text/html" in data:
        # One line, for an empty one would end the block of HTML.
        joined = re.sub(r"\n", "&#10;", data["text/html"].strip())
        return f'<div class="notebook-output">{joined}</div>', {}
    text = output.get("text") or data.get("text/plain", "")
    return f"```text\n{text.rstrip()}\n```", {}
