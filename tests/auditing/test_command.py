"""`tellapart audit`: what it prints, writes, keeps and refuses."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from facts import check_facts
from tellapart.auditing.audit import Audit, Options, audit
from tellapart.auditing.show import audit_folder, print_audit
from tellapart.records import machine


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Audit:
    """The embedded set, audited once."""
    from tellapart.benchmarks.find import load_pairs

    return audit(load_pairs("demo"))


@pytest.mark.slow
def test_the_demo_set_passes_all_but_a_tag_of_many_values_with_these_numbers(demo):
    assert [finding.name for finding in demo.warnings] == ["tag: change"]
    assert (demo.items, demo.images, demo.texts, demo.clusters) == (400, 800, 775, 400)
    by_check = {finding.name: finding for finding in demo.findings}
    assert (by_check["blind: blind"].low, by_check["blind: blind"].high) == pytest.approx((0.4512, 0.5188), abs=1e-3)
    expected = {
        "blind: blind": 0.485, "length: words": pytest.approx(0.0925, abs=1e-3),
        "length: characters": pytest.approx(0.3, abs=0.01), "bag of words": 0.25, "captions: shared": 0.015,
        "images: near-duplicates": 0.0, "change: not minimal": 0.03,
        "change: share": pytest.approx(0.1055, abs=1e-3), "tag: aspect": 100.0,
    }  # fmt: skip
    assert {name: by_check[name].value for name in expected} == expected
    assert sum(map(sum, demo.changes_by_field)) == 400


@pytest.mark.slow
def test_it_prints_a_table_and_what_was_not_checked_and_exits_with_0(made_set, command):
    ran = command("audit", made_set(n=30), code=0)
    assert "change: not minimal" in ran.out  # noise: every pixel changes
    text = " ".join(ran.out.split())
    assert "warn change: not minimal: items of which more than 25 % of the pixels change" in text
    assert "by more than 24 of 255 levels: 100.00 %; not minimal to the eye" in text
    assert "not checked  grammar" in ran.out
    assert re.fullmatch(r"\d+ of \d+ checks warn: .*change: not minimal.*", ran.out.splitlines()[-1])


def test_every_verdict_can_be_read_at_80_columns_if_a_finding_has_no_interval(captioned, monkeypatch, capsys):
    texts = [(f"a red cup {k}", f"a blue cup {k}" + " there" * (k < 7)) for k in range(30)]
    record = audit(captioned(texts), Options(pictures=False))
    for name, value in (("TTY_COMPATIBLE", "1"), ("NO_COLOR", "1"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    print_audit(record)
    shown = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
    assert [each.name for each in record.findings if each.reason] == ["length: words", "length: characters"]
    assert re.search(r"^too few .*length: words: .*7 of 30 items", shown, re.MULTILINE)
    head = next(line for line in shown.splitlines() if line.startswith("check"))
    place = head.index("verdict")
    assert len(head.rstrip()) <= 80 and "passes if" in head
    verdicts = [line[place : place + 7].rstrip() for line in shown.splitlines()]
    assert [word for word in verdicts if word in {"pass", "warn"}] == [each.verdict for each in record.findings]


@pytest.mark.slow
def test_strict_exits_with_1_where_a_check_warns(made_set, command):
    assert command("audit", made_set(n=30), "--strict").code == 1
    assert command("audit", "demo", "--no-images", "--strict").code == 1  # a tag's rarest value has 3 items


@pytest.mark.slow
def test_the_context_of_the_model_to_be_measured_is_compared_with_the_captions(made_set, command):
    pytest.importorskip("torch", reason="CLIP's tokenizer needs the extra 'models'")
    pairs = made_set(n=6)
    findings = command("audit", pairs, "--no-images", "-m", "4", "--json").json["findings"]
    found = {each["name"]: each for each in findings}
    assert found["context: cut"]["value"] == 1.0 and found["context: cut"]["verdict"] == "warn"
    assert "context" in {each["name"] for each in command("audit", pairs, "--no-images", "--json").json["not_done"]}
    check_facts(command("audit", pairs, "--no-images", "--model", "random", code=2).err, "'random'", "open_clip:", "77")


def test_json_is_the_record_that_is_written_and_the_files_are_named_with_what_the_card_lacks(made_set, command):
    folder = made_set(n=6)
    ran = command("audit", f"folder:{folder}", "--to", "card", "--json", code=0)
    assert ran.json == json.loads(Path("card/audit.json").read_text())
    assert Audit.model_validate_json(Path("card/audit.json").read_text()).items == 6
    assert Path("card/card.html").read_text().startswith("<!doctype html>")
    text = " ".join(command("audit", folder, "--to", "card").out.split())
    assert "card/card.html and card.md: the data card; 50 questions of card.json are open" in text
    assert "the card lacks description, url, creators, date_published, which it asks for" in text


def test_an_option_that_acts_on_one_of_two_sets_has_an_effect(made_set, command):
    folder = made_set(n=6)
    for sets in (("demo", "--against", folder), (folder, "--against", "demo")):
        command("audit", *sets, "--images", folder, "--no-images", "--json", code=0)
    idle = command("audit", "demo", "--against", "demo", "--images", folder, "--no-images", code=2)
    check_facts(idle.err, "--images", "'demo'")


def test_answers_that_were_filled_in_elsewhere_are_not_written_over(made_set, command):
    folder = made_set(n=6)
    (folder / "card.json").write_text("{}")
    assert command("audit", folder, "--no-images", "--to", "card").code == 0
    assert command("audit", folder, "--no-images", "--to", "card").code == 0, "nothing is filled in yet"
    card = Path("card/card.json")
    answers = {"title": "Cups", "url": "https://a.org", "datasheet": {"purpose": "a test"}}
    filled = json.loads(card.read_text()) | answers
    card.write_text(json.dumps(filled))
    refused = command("audit", folder, "--no-images", "--to", "card", code=2)
    check_facts(refused.err, "card/card.json", "'title'", "'url'", "'purpose'", "folder of the set")
    assert json.loads(card.read_text()) == filled
    (folder / "card.json").write_text(card.read_text())
    assert command("audit", folder, "--no-images", "--to", "card").code == 0
    again = json.loads(card.read_text())
    assert (again["datasheet"]["purpose"], again["url"], again["creators"]) == ("a test", "https://a.org", None)
    assert Path("card/card.md").read_text().startswith("# Cups\n")


def test_another_set_is_searched_for_what_both_hold(made_set, command):
    ours, theirs = made_set("ours", n=8, seed=1), made_set("theirs", n=8, seed=1)
    ran = command("audit", ours, "--against", theirs, "--json")
    leaks = {each["name"]: each["value"] for each in ran.json["findings"] if each["name"].startswith("leak")}
    assert leaks == {"leak: captions": 1.0, "leak: images": 1.0, "leak: near-duplicates": 0.0}
    fresh = made_set("fresh", n=8, seed=2)
    ran = command("audit", ours, "--against", fresh, "--json")
    assert [each["value"] for each in ran.json["findings"] if each["name"] == "leak: images"] == [0.0]


def test_no_picture_is_read_if_none_is_wanted(made_set, command):
    folder = made_set(n=3)
    for picture in (folder / "images").iterdir():
        picture.write_bytes(b"no picture")
    assert command("audit", folder, "--no-images").code == 0
    check_facts(command("audit", folder, code=2).err, "decoded", "image")
    for arguments, *facts in (
        (["vlue-nlvr2"], "vlue-nlvr2", "task", "nlvr2"),
        (["demo", "--against", "nonesuch"], "benchmark", "'nonesuch'"),
    ):
        check_facts(command("audit", "--no-images", *arguments, code=2).err, facts)


def test_an_edit_of_the_card_computes_nothing_again_and_one_of_the_set_does(made_set, tmp_path, monkeypatch):
    def audited() -> tuple[object, list[str]]:
        stages: list[str] = []
        return audit_folder(folder, lambda stage, *_: stages.append(stage)), stages

    monkeypatch.setenv("TELLAPART_CACHE", str(tmp_path / "cache"))
    folder = made_set(n=4)
    first, stages = audited()
    assert stages
    card = folder / "card.json"
    card.write_text(json.dumps(json.loads(card.read_text()) | {"title": "Cups & bowls, second edition"}))
    assert audited() == (first, [])
    assert "second edition" in (folder / "card.md").read_text()
    Image.new("RGB", (9, 9)).save(min(folder.rglob("*.png")))
    assert audited()[1]
    audits = [*(tmp_path / "cache" / "audits").iterdir()]
    assert len(audits) == 2
    for path in audits:
        path.write_text("{")  # damaged: computed again
    assert audited()[1]


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
