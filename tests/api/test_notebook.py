"""A notebook, executed: runs show tables, items their pictures, long work a bar."""

import os
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
CELLS = [
    "import time, tellapart as ta\nrun = ta.evaluate(['oracle', 'constant'], 'demo', limit=10)\nrun",
    "run.table()",
    "run.items()",
    "run.items()[0]",
    "ta.compare(run, baseline='constant')",
    "def slow(image, text):\n    time.sleep(0.05)\n    return 0.0\nslow.fingerprint = 'slow-1'\n"
    "slow_run = ta.evaluate(slow, 'demo', limit=20, batched=False, batch_size=2, cache=False)",
    "metric = ta.metrics.GroupScore()\nmetric.update(run.items().scores)\nmetric.compute().value",
    "ta.audit('demo', read_images=False)",
    "import rich\nrich.print(run)",
]


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The cells with their outputs, and every message of the kernel that shows something."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    shown: list[dict[str, Any]] = []

    class Client(nbclient.NotebookClient):
        def process_message(self, msg, cell, cell_index: int):
            shown.append({"type": msg["msg_type"], "cell": cell_index, **msg["content"]})
            return super().process_message(msg, cell, cell_index)

    environment = {**os.environ, "TELLAPART_CACHE": str(folder / "cache"), "IPYTHONDIR": str(folder / "ipython")}
    client = Client(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment)
    return notebook.cells, shown


def html(cell) -> str:
    return "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)


def test_a_run_its_table_and_its_items_show_themselves(executed):
    cells, _ = executed
    run, table, items, item, compared = (html(cell) for cell in cells[:5])
    for shown in (run, table):
        assert "<table>" in shown and "oracle" in shown and "group_score" in shown
    assert items.count("<tr>") == 11
    assert item.count("<img src=") == item.count("✓") == 2
    assert "p_holm" in compared


def test_long_work_shows_a_bar_that_is_gone_and_nothing_is_printed_on_the_way(executed):
    cells, messages = executed
    bars = [one for one in messages if one["cell"] == 5 and one["type"] in {"display_data", "update_display_data"}]
    drawn = [one["data"].get("text/html", "") for one in bars]
    assert any('<progress value="' in one for one in drawn)
    assert any("slow on demo: pairs" in one for one in drawn)
    assert (drawn[-1], html(cells[5]), cells[6].outputs[0]["data"]["text/plain"]) == ("", "", "1.0")
    assert "threshold" in html(cells[7])
    assert "oracle" in str(cells[8].outputs)
    assert [output for cell in cells[:8] for output in cell.outputs if output.output_type == "stream"] == []
