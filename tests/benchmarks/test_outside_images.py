"""Images of the user's own sets: below `--images`, in the set's folder, and elsewhere by a word of the user's alone."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas
import pytest

from facts import check_facts, raises
from pictures import draw
from tellapart.benchmarks.find import load_pairs
from tellapart.benchmarks.locations import FolderImages, Locations
from tellapart.errors import DataError

Write = Callable[..., Path]


@pytest.fixture
def photos(tmp_path) -> Path:
    """A collection that nobody copies: `val/0.png` to `val/3.png`."""
    folder = tmp_path / "photos"
    (folder / "val").mkdir(parents=True)
    for number in range(4):
        (folder / "val" / f"{number}.png").write_bytes(draw(number, size=16))
    return folder


@pytest.fixture
def write(tmp_path) -> Write:
    """Write a set of two 2x2 items whose images are named by a function of their numbers."""

    def make(image: Callable[[int], str], name: str = "mine") -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        rows = [
            {"id": f"{k}", "images": [image(2 * k), image(2 * k + 1)], "texts": [f"one cup {k}", f"two cups {k}"]}
            for k in range(2)
        ]
        (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder

    return make


@pytest.fixture(params=["absolute", "dots", "link"])
def outside(request, write, photos, tmp_path) -> Path:
    """A set whose images lie outside of its folder, in each of the ways that there are."""
    if request.param == "absolute":
        return write(lambda number: str(photos / "val" / f"{number}.png"))
    if request.param == "dots":
        return write(lambda number: f"../photos/val/{number}.png")
    folder = write(lambda number: f"{number}.png")
    for number in range(4):
        (folder / f"{number}.png").symlink_to(photos / "val" / f"{number}.png")
    return folder


def test_images_of_a_folder_are_looked_for_under_images_as_those_of_any_benchmark(write, photos):
    folder = write(lambda number: f"{number}.png")
    with raises(DataError, "pairs.jsonl:1", "'images[0]'", "'0.png'", "images="):
        load_pairs(f"folder:{folder}")
    for images in (photos / "val", photos):  # in it, or one folder deeper
        assert load_pairs(f"folder:{folder}", Locations(images=images)).read_bytes("3.png") == draw(3, size=16)


def test_a_folder_of_the_sets_name_comes_before_the_folder_itself_and_the_sets_own_comes_last(write, photos):
    folder = write(lambda number: f"{number}.png")
    (photos / "mine").mkdir()
    (photos / "mine" / "0.png").write_bytes(draw(10))
    for number in (0, 1, 2, 3):
        (folder / f"{number}.png").write_bytes(draw(20 + number))
    pairs = load_pairs(f"folder:{folder}", Locations(images=photos))
    assert pairs.read_bytes("0.png") == draw(10)
    assert pairs.read_bytes("1.png") == draw(21)
    assert load_pairs(f"folder:{folder}").read_bytes("0.png") == draw(20)


def test_where_images_lie_changes_no_number_and_no_fingerprint(command, write, photos):
    write(lambda number: f"{number}.png")
    own = write(lambda number: f"images/{number}.png", "own")
    (photos / "val").rename(own / "images")
    (photos / "val").symlink_to(own / "images")
    common = ("run", "-m", "bag-of-words", "-m", "random", "--no-cache", "--json")
    there = command(*common, "-b", "folder:mine", "--images", photos / "val", "--out", "a").json["runs"]
    here = command(*common, "-b", "folder:own", "--out", "b").json["runs"]
    for one, other in zip(there, here, strict=True):
        (mine,), (others,) = one["benchmarks"].values(), other["benchmarks"].values()
        assert (mine["fingerprint"], mine["metrics"]) == (others["fingerprint"], others["metrics"])
    assert Path("a/report.html").read_text().count("data:image/") == Path("b/report.html").read_text().count(
        "data:image/"
    )
    assert Path("a/report.html").read_text().count("data:image/") > 0


def test_images_outside_are_refused_by_an_error_that_names_the_option(outside):
    with raises(DataError, "pairs.jsonl:1", "'images[0]'", "outside_images=True"):
        load_pairs(f"folder:{outside}")
    with raises(DataError, "outside_images=True"):
        load_pairs(f"folder:{outside}", Locations(images=outside))


def test_images_outside_are_read_if_that_is_allowed(outside):
    pairs = load_pairs(f"folder:{outside}", Locations(outside=True))
    assert [pairs.read_bytes(image) for image in pairs.items[1].images] == [draw(2, size=16), draw(3, size=16)]


def test_what_is_allowed_for_images_is_a_picture_still(write, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    for reference, said in (("../secret.txt", ("image", ".webp")), ("https://a/b.png", "address")):
        folder = write(lambda _number, reference=reference: reference)
        with raises(DataError, said):
            load_pairs(f"folder:{folder}", Locations(outside=True))


@pytest.mark.few(2)
def test_a_run_shows_pictures_from_outside_and_show_does_so_only_if_told_again(command, outside):
    name = f"folder:{outside}"
    refused = command("run", "-m", "random", "-b", name, "--out", "r")
    assert (refused.code, refused.out) == (2, "")
    assert "--outside-images" in refused.err
    assert refused.err.count("\n") == 1
    command("run", "-m", "random", "-b", name, "--out", "r", "--outside-images", code=0)
    pictures = Path("r/report.html").read_text().count("data:image/")
    assert pictures > 0
    record = json.loads(Path("r/results.json").read_text())
    assert "outside" in record["run"].pop("command")
    assert "outside" not in json.dumps(record)  # or a stranger's run would allow itself what it likes
    again = command("show", "r")
    check_facts(again.err, "warning", "report", "--outside-images")
    Path("r/report.html").unlink()
    command("show", "r")
    assert Path("r/report.html").read_text().count("data:image/") == 0
    shown = command("show", "r", "--outside-images")
    assert (shown.code, shown.err) == (0, "")
    assert Path("r/report.html").read_text().count("data:image/") == pictures


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "folder:mine", "--to", "TO.csv"),
        ("audit", "mine"),
        ("annotate", "export", "match", "folder:mine", "--to", "TO"),
        ("time", "-m", "random", "-b", "folder:mine", "--repeats", "1", "--warm-up", "1", "--batch-size", "2"),
        ("score", "folder:mine", "--scores", "scores.csv", "--out", "TO"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_that_reads_a_folder_takes_both_options(command, write, photos, tmp_path, arguments):
    rows = [f"{k},{i},{t},{i + t}" for k in range(2) for i in range(2) for t in range(2)]
    (tmp_path / "scores.csv").write_text("\n".join(["id,image,text,score", *rows]) + "\n")
    write(lambda number: str(photos / "val" / f"{number}.png"))
    refused = command(*arguments, code=2)
    assert "--outside-images" in refused.err
    command(*(argument.replace("TO", "allowed") for argument in arguments), "--outside-images", code=0)
    write(lambda number: f"{number}.png")
    command(*(argument.replace("TO", "below") for argument in arguments), "--images", photos, code=0)


def test_rows_of_a_datasets_folder_without_a_suffix_are_found_under_images(tmp_path, photos):
    folder = tmp_path / "dataset"
    folder.mkdir()
    row = {"image_0": "0", "image_1": "1", "caption_0": "one cup", "caption_1": "two cups"}
    (folder / "metadata.jsonl").write_text(json.dumps(row))
    pairs = load_pairs(f"folder:{folder}", Locations(images=photos))
    assert pairs.items[0].images == ("0.png", "1.png")
    assert pairs.read_bytes("1.png") == draw(1, size=16)


def test_links_out_of_the_folder_of_a_listed_benchmark_are_followed_if_allowed(tmp_path, photos):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").symlink_to(photos / "val" / "0.png")
    with raises(DataError, "'a.png'", "outside_images=True"):
        FolderImages(tmp_path / "images")("a.png")
    assert FolderImages(tmp_path / "images", outside=True).find("a.png") == photos / "val" / "0.png"


@pytest.mark.parametrize("listing", ["pairs.jsonl", "metadata.csv", "pairs.csv", "pairs.tsv", "pairs.parquet"])
def test_absolute_paths_inside_the_folder_are_read_and_become_relative(photos, listing):
    rows = [
        {
            **{f"image_{side}": str(photos / "val" / f"{2 * k + side}.png") for side in (0, 1)},
            **{f"caption_{side}": f"{side + 1} cups {k}" for side in (0, 1)},
        }
        for k in range(2)
    ]
    if listing == "pairs.jsonl":
        rows = [
            {"id": str(k), "images": [*row.values()][:2], "texts": [*row.values()][2:]} for k, row in enumerate(rows)
        ]
        (photos / listing).write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif listing.endswith("parquet"):
        pandas.DataFrame(rows).to_parquet(photos / listing)
    else:
        pandas.DataFrame(rows).to_csv(photos / listing, index=False, sep="\t" if listing.endswith("tsv") else ",")
    kind = "folder:{}" if listing in {"pairs.jsonl", "metadata.csv"} else "table:{}/" + listing
    # The folder's name may go through a link, in the file or on the command line.
    link = photos.parent / "link"
    link.symlink_to(photos)
    for name in (kind.format(photos), kind.format(link)):
        pairs = load_pairs(name)
        assert pairs.items[1].images == ("val/2.png", "val/3.png")
        assert pairs.read_bytes("val/3.png") == (photos / "val" / "3.png").read_bytes()
    elsewhere = photos.parent / "elsewhere"
    elsewhere.mkdir()
    (photos / listing).rename(elsewhere / listing)
    moved = kind.format(elsewhere)
    with raises(DataError, f"{photos}/val/0.png", "absolute", elsewhere, "images=", "outside_images=True"):
        load_pairs(moved)
    below = load_pairs(moved, Locations(images=photos))
    assert below.items[0].images == ("val/0.png", "val/1.png")
    assert below.read_bytes("val/1.png") == (photos / "val" / "1.png").read_bytes()


def test_an_absolute_path_leads_out_of_the_folder_by_no_way(photos, tmp_path):
    (tmp_path / "secret.png").write_bytes((photos / "val" / "0.png").read_bytes())
    (photos / "link.png").symlink_to(tmp_path / "secret.png")
    (photos / "up").symlink_to(tmp_path)
    images = FolderImages(photos)
    for way in ("../secret.png", "link.png", "up/secret.png", "up/../secret.png", "val/../../secret.png"):
        with raises(DataError, "outside_images=True"):
            images.find(f"{photos}/{way}")
    with raises(DataError, "absolute"):
        images.find(f"{photos}-2/val/0.png")


def test_an_absolute_path_is_never_read_from_a_folder_that_comes_before(photos, tmp_path):
    (tmp_path / "mine" / "val").mkdir(parents=True)
    picture = tmp_path / "mine" / "val" / "0.png"
    picture.write_bytes((photos / "val" / "1.png").read_bytes())
    images = FolderImages(photos, also=tmp_path / "mine")
    with raises(DataError, picture, "absolute"):  # 'val/0.png' is another picture in the first folder
        images.find(str(picture))
    picture = picture.rename(picture.with_name("9.png"))
    assert images.find(str(picture)) == picture.resolve()


@pytest.mark.parametrize("name", ["folder:photos", "table:photos/p.csv"])
def test_croissant_metadata_are_written_only_of_a_file_that_finds_its_images(command, photos, name):
    images = [str(photos / "val" / f"{k}.png") for k in (0, 1)]
    item = {"id": "0", "images": images, "texts": ["one cup", "two cups"]}
    rows = {
        "folder": json.dumps(item),
        "table": f"image_0,image_1,text_0,text_1\n{images[0]},{images[1]},a cup,two cups",
    }
    kind = name.partition(":")[0]
    (photos / {"folder": "pairs.jsonl", "table": "p.csv"}[kind]).write_text(rows[kind])
    ran = command("audit", name, "--to", "card")
    assert not Path("card/croissant.json").exists()
    check_facts(ran.out, "no croissant.json", "absolute" if kind == "folder" else "write_pair_set")
