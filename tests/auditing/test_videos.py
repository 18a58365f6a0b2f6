"""Sets of films are audited as sets of pictures are: compared frame by frame, and told apart by all their frames."""

import json
from pathlib import Path

import numpy as np
import pytest

import tellapart as ta
from pictures import film
from tellapart.auditing.origin import FILE_STATISTICS, file_statistics, pixel_statistics
from tellapart.auditing.pictures import scan_images
from tellapart.data.folder import read_pair_set


@pytest.fixture
def folder(tmp_path, blots) -> Path:
    """3 items of two films of 8 frames; the second has a white patch in its last 4 frames. Item 1 shows item 0's."""
    rows = []
    (tmp_path / "set").mkdir()
    for k in range(3):
        plain = np.stack([np.roll(blots(2 * max(k, 1), 32), 2 * shift, axis=1) for shift in range(8)])
        changed = plain.copy()
        changed[4:, 8:16, 16:32] = 255
        if k == 1:  # alike, and not the same
            plain, changed = (pixels ^ np.uint8(1) for pixels in (plain, changed))
        names = [f"{k}a.mkv", f"{k}b.mkv"]
        for name, frames in zip(names, (plain, changed), strict=True):
            film(tmp_path / "set" / name, frames, "ffv1", form="bgr0")  # without loss
        rows.append({"id": str(k), "images": names, "texts": [f"no patch {k}", f"a patch {k}"], "cluster": str(k)})
    (tmp_path / "set" / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "set"


def test_films_are_compared_frame_by_frame(folder):
    scan = scan_images(read_pair_set(folder))
    assert scan.hashes.thumbnails.shape == (6, 192)
    for change in scan.changes:
        assert change.share == pytest.approx(0.5 * 8 * 16 / 32**2, abs=0.01)  # a few pixels were nearly white before
        assert (change.box, change.box_share) == ((0.5, 0.25, 1.0, 0.5), 0.125)


def test_a_set_of_films_is_audited_whole(folder, tmp_path):
    found = ta.audit(str(folder), to=tmp_path / "card", against=str(folder)).record
    findings = {finding.name: finding for finding in found.findings}
    assert found.images == 6
    assert findings["images: near-duplicates"].items == ("0", "1")
    assert findings["leak: images"].value == 1.0
    assert findings["change: share"].value == pytest.approx(0.5 * 8 * 16 / 32**2, abs=0.01)
    (distribution,) = json.loads((tmp_path / "card" / "croissant.json").read_text())["distribution"][1:]
    assert distribution["encodingFormat"] == "video/matroska"


def test_statistics_of_a_film_are_means_over_its_frames(blots):
    frames = np.stack([blots(seed)[:48] for seed in range(3)])
    np.testing.assert_allclose(pixel_statistics(frames), np.mean([*map(pixel_statistics, frames)], axis=0))
    sizes = dict(zip(FILE_STATISTICS, file_statistics(b"x" * 64, frames), strict=True))
    assert np.exp([sizes["width"], sizes["height"]]).tolist() == pytest.approx([64, 48])
