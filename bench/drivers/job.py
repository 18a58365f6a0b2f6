"""What every driver does: it reads its job, a file of JSON, and carries out the action that is named."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = dict[str, Any]


def carry_out(**actions: Callable[[Job], None]) -> None:
    """Carry out an action in the tool's folder: the program's arguments are its name and the file of the job."""
    action, file = sys.argv[1:]
    job = json.loads(Path(file).read_text())
    os.chdir(job["home"])
    actions[action](job)
