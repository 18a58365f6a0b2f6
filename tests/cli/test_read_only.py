"""What cannot be written is one line: every command's `--out` on a disk that may only be read."""

import json
import shutil
import subprocess
import sys

import pytest

#: Runs each command of a list in one process, and prints how it ended and what it said.
COMMANDS = """
import json, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", "locked"], check=True)
from tellapart.cli.main import main
said = []
for command in json.loads(sys.argv[1]):
    sys.argv = ["tellapart", *command]
    sys.stderr, kept = open("said", "w"), sys.stderr
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    except BaseException as raised:
        code = repr(raised)
    sys.stderr.close()
    sys.stderr = kept
    said.append((code, open("said").read()))
open("all", "w").write(json.dumps(said))
"""


@pytest.mark.slow
def test_every_command_says_in_one_line_that_it_cannot_write(made_set, command, tmp_path):
    own_mounts = ("unshare", "--user", "--map-root-user", "--mount")
    (tmp_path / "locked").mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("util-linux's unshare is not here")
    tried = subprocess.run([*own_mounts, "mount", "-t", "tmpfs", "none", "locked"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"a namespace of its own cannot be had or mounted in here: {tried.stderr!r:.200}")
    made_set("few", n=12)
    assert command("run", "-m", "random", "-b", "folder:few", "--out", "run").code == 0
    (tmp_path / "c.csv").write_text("id,image,caption\na,0_0.png,a red cup on a blue table\n")
    options = 'captions = "c.csv"\nimages = "few/images"\nkinds = ["swap_att"]\n'
    (tmp_path / "recipe.toml").write_text(f'name = "x"\nbuilder = "negatives"\nseed = 1\n[options]\n{options}')
    commands = [
        ["run", "-m", "random", "-b", "folder:few", "--out", "locked/run"],
        ["run", "-m", "random", "-b", "folder:few", "--out", "locked"],
        ["build", "recipe.toml", "--out", "locked/set"],
        ["audit", "few", "--to", "locked/audit"],
        ["export", "folder:few", "--to", "locked/few.csv"],
        ["annotate", "export", "match", "folder:few", "--to", "locked/study"],
        ["table", "run", "--out", "locked/table.md"],
        ["plot", "bars", "run", "--out", "locked/bars.svg"],
        ["convert", "run", "--to", "model-index", "--out", "locked/card.md"],
        ["board", "export", "--runs", "run", "--out", "locked/site"],
        ["mine", "few", "-m", "demo-encoder", "--out", "locked/mined.jsonl"],
        ["time", "-m", "random", "-b", "folder:few", "--batch-size", "4", "--out", "locked/timing.json"],
    ]
    subprocess.run([*own_mounts, sys.executable, "-c", COMMANDS, json.dumps(commands)], check=True, cwd=tmp_path)
    for arguments, (code, said) in zip(commands, json.loads((tmp_path / "all").read_text()), strict=True):
        assert code in {1, 2}, (arguments, said)
        last = said.splitlines()[-1]
        assert last.startswith("error: "), (arguments, said)
        assert "Traceback" not in said
        assert "locked" in last, (arguments, said)
