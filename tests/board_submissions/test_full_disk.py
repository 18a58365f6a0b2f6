"""A really full disk: a few megabytes of memory as the state's disk, in a mount namespace that ends with the test."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from boards import until

_INSIDE = "TELLAPART_TEST_OWN_MOUNTS"
_MOUNT = "mount -t tmpfs -o size=3m,mode=700 none"


def unshared(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that may mount what it likes, and that nobody else sees."""
    line = ["unshare", "--user", "--map-root-user", "--mount", *command]
    return subprocess.run(line, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_ends_when_there_is_room(tmp_path):
    """Run the test below where it can mount."""
    if shutil.which("unshare") is None:
        pytest.skip("util-linux's unshare is not here")
    tried = unshared("sh", "-c", f"{_MOUNT} {tmp_path}")
    if tried.returncode:
        pytest.skip(f"a namespace of its own cannot be had or mounted in here: {tried.stderr.strip()[:200]}")
    quiet = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "in")]
    inner = unshared(sys.executable, *quiet, f"{__file__}::test_inside", **{_INSIDE: "1"})
    assert inner.returncode == 0, inner.stdout + inner.stderr
    assert "1 passed" in inner.stdout


def filled(folder: Path) -> Path:
    """Fill a disk to its last byte."""
    ballast = folder / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue
    return ballast


def inside(board, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    subprocess.run([*_MOUNT.split(), str(state)], check=True)
    many = {"daily": 100, "total": 100}
    made = board(8, limits=many, settings={"upload_bytes": 50_000, "sign_ins_a_minute": 100})
    good = made.npz(made.right())
    waiting = [made.send(good).json()["id"] for _ in range(2)]
    ballast = filled(state)
    assert shutil.disk_usage(state).free == 0
    for data in (good, b"x", bytes(49_000)):
        answer = made.send(data)
        assert (answer.status_code, "nothing was counted" in answer.json()["detail"]) == (507, True)
    sign_in = made.client.post("/sign-in", data={"token": made.tokens["ann"]})
    close = made.client.post("/admin/hidden/clocks/close", headers=made.of("root"))
    assert {sign_in.status_code, close.status_code} == {503}
    assert made.client.get("/hidden/clocks").status_code == 200  # readers need no room
    made.service.start()
    time.sleep(1.2)  # the worker tries, and cannot write that it does
    assert made.service._worker.is_alive()
    ballast.unlink()
    until(lambda: all(row["state"] == "done" for row in made.service.database.all("SELECT state FROM submission")))
    third = made.send(good).json()["id"]
    until(lambda: made.state(third) != "received")
    ballast = filled(state)  # and now while one is measured
    time.sleep(1.5)
    ballast.unlink()
    until(lambda: made.state(third) == "done")
    made.service.stop()
    ids, rows = {*waiting, third}, made.service.database.all("SELECT * FROM submission")
    assert {row["id"] for row in rows} == ids
    assert {json.loads(row["public"])["values"]["group_score"] for row in rows} == {1.0}
    ended = [entry["about"]["submission"] for entry in made.service.log() if entry["what"] == "submission done"]
    assert sorted(ended) == sorted(ids)
    assert {path.name for path in made.queue.folder.iterdir()} == {".lock", *ids}
    assert not made.service.queue.is_closed("clocks")
    assert made.service.database.one("PRAGMA integrity_check")[0] == "ok"
    assert made.client.get("/hidden/clocks").json()["models"][0]["public"]["group_score"]["value"] == 1.0


if _INSIDE in os.environ:  # run by the test above, in a namespace of its own
    test_inside = inside
