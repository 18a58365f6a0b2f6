"""An audit is kept: an edit of the card computes nothing again, an edit of the set does."""

import json

from PIL import Image

from tellapart.auditing.show import audit_folder
from tellapart.records import machine


def test_an_edited_card_is_written_anew_from_the_kept_audit_and_an_edited_set_is_audited(
    made_set, tmp_path, monkeypatch
):
    monkeypatch.setenv("TELLAPART_CACHE", str(tmp_path / "cache"))
    folder = made_set(n=4)
    stages: list[str] = []
    page, verdict = audit_folder(folder, lambda stage, *_: stages.append(stage))
    assert stages
    stages.clear()
    card = folder / "card.json"
    facts = json.loads(card.read_text()) if card.is_file() else {}
    card.write_text(json.dumps({**facts, "title": "Cups & bowls, second edition"}))
    assert audit_folder(folder, lambda stage, *_: stages.append(stage)) == (page, verdict)
    assert "second edition" in (folder / "card.md").read_text()
    assert stages == []
    picture = next(path for path in sorted(folder.rglob("*.png")))
    Image.new("RGB", (9, 9)).save(picture)
    audit_folder(folder, lambda stage, *_: stages.append(stage))
    assert stages
    kept = sorted((tmp_path / "cache" / "audits").iterdir())
    assert len(kept) == 2
    for path in kept:
        path.write_text("{")  # damaged: computed again
    stages.clear()
    audit_folder(folder, lambda stage, *_: stages.append(stage))
    assert stages


def test_an_audit_by_another_version_of_a_library_is_not_taken(made_set, tmp_path, monkeypatch):
    monkeypatch.setenv("TELLAPART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "_version", machine._version.__wrapped__)  # as in two processes
    folder = made_set(n=2)
    audit_folder(folder)
    newer = tmp_path / "site" / "pillow-99.0.dist-info"
    newer.mkdir(parents=True)
    (newer / "METADATA").write_text("Metadata-Version: 2.1\nName: pillow\nVersion: 99.0\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    audit_folder(folder)
    assert len(list((tmp_path / "cache" / "audits").iterdir())) == 2
