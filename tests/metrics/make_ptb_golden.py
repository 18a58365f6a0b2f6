"""Make the golden files of the caption metrics from pycocoevalcap 1.2 and its Java tokeniser.

    python tests/metrics/make_ptb_golden.py [FOLDER OF ANNOTATION FILES]

Needs Java and `pip install pycocoevalcap`; tellapart itself is not imported. Writes, beside itself, `ptb_golden.jsonl`
(the captions of `ptb_captions.txt` with their tokens), `ptb_drawn.json` (digests of the tokens of drawn captions),
`captions_golden.json` (metrics of small corpora) and, if the folder is given, `ptb_digests.json` (one digest of the
tokens of each annotation file).
"""

import contextlib
import csv
import hashlib
import io
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WORDS = [*"a a a the the dog cat man two red on of runs hill's -lrb-".split(), "3\xa01/2"]  # noqa: SIM905
#: Drawn captions: so many blocks of so many.
BLOCKS, BLOCK = 40, 5_000
PLAIN = (
    "A young man with two red umbrellas is standing on the grass near an old bench while his dog looks at some birds"
)
ENTITIES = ("amp", "lt", "gt", "nbsp", "apos", "quot", "md", "mdash", "ndash", "eacute", "auml", "#39", "#8217")
FORMS = (
    "'90s 1/2 3/4-inch 1990s o'clock can't don't U.S. a.m. Mr. $5.00 10% T-shirt 'n' 3-1/2 1,000 12:30 'em y'all "
    "cannot 'tis ... -- (a) [b] dog's dogs' 1st 20's 3\xbd C++ AT&T R&B w/ and/or I'm we'll O'Neil d'or Jan. Inc. "
    "Ph.D. St. x-ray :) \u201chi\u201d"
)
NUMBERS = "1/2 1\u20442 3/4 11/2 1990s 1990 90s 1 2 12 123 5 \xbd 1.5 1,000 - / \u2044 + ' \u2019 S s a cup ."
#: An entity in capitals behind a capital may be the end of a name (R&A), which is not covered.
NOT_COVERED = re.compile("[A-Z]&[A-Z][A-Za-z]*;")
#: Stands between captions, because the Java tokeniser lets the next caption change the end of this one.
SEPARATOR = ";"


def strings_of(path: Path) -> list[str]:
    """Every distinct string value of an annotation file (JSON, JSON lines, CSV, or text with tabs), sorted."""
    return sorted(set(_strings(path)))


def _strings(path: Path) -> Iterator[str]:
    if path.suffix == ".json":
        yield from _leaves(json.loads(path.read_text(encoding="utf-8")))
    elif path.suffix == ".jsonl":
        for line in path.read_text(encoding="utf-8").splitlines():
            yield from _leaves(json.loads(line))
    elif path.suffix in (".csv", ".tsv"):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","):
                yield from row
    else:
        for line in path.read_text(encoding="utf-8").split("\n"):
            yield from line.split("\t")


def _leaves(value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)


def annotation_files(folder: Path) -> list[Path]:
    """The annotation files with captions, questions or sentences in them."""
    kinds = {".json", ".jsonl", ".csv", ".tsv", ".txt"}
    skipped = {
        "winoground_scores",
        "images",
        "native",
        "negbench_results",
        "vl_compo",
        "vismin",
    }  # numbers, not sentences
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in kinds and not skipped & set(path.relative_to(folder).parts) and "Classifier" not in path.name
    )


def drawn_captions(block: int) -> list[str]:
    """One block of captions with what the wild brings: any case, any character, entities, and numbers run together."""
    draw = random.Random(block)
    captions = (_drawn_caption(draw) for _ in range(BLOCK))
    return [caption for caption in captions if not NOT_COVERED.search(caption)]


def _drawn_caption(draw: random.Random) -> str:
    words = draw.sample(PLAIN.split(), draw.randint(3, 8))
    for _ in range(draw.randint(1, 2)):
        place, part = draw.randrange(len(words)), _part(draw)
        cut = draw.choice((0, len(words[place]), draw.randint(0, len(words[place]))))
        glue = draw.choice(("", "", " "))
        words[place] = words[place][:cut] + glue + part + glue + words[place][cut:]
    caption = " ".join(words)
    return _any_case(caption, draw) if draw.random() < 0.3 else caption


def _part(draw: random.Random) -> str:
    kind = draw.randrange(4)
    if kind == 0:
        return f"&{_any_case(draw.choice(ENTITIES), draw)};"
    if kind == 1:
        return "".join(draw.choice(NUMBERS.split()) for _ in range(draw.randint(2, 5)))
    if kind == 2:
        return _any_case(draw.choice(FORMS.split()), draw)
    while True:  # any character but half ones, and line separators, which would be two captions
        code = draw.randrange(0x80, 0x10000)
        if not 0xD800 <= code < 0xE000 and code not in (0x85, 0x2028, 0x2029):
            return chr(code)


def _any_case(text: str, draw: random.Random) -> str:
    return "".join(draw.choice((letter.lower(), letter.upper())) for letter in text)


def digest(tokens: Sequence[str]) -> str:
    """A digest of tokenised captions in their order."""
    return hashlib.sha256("\n".join(tokens).encode()).hexdigest()


def java_tokens(captions: Sequence[str]) -> list[str]:
    """The tokens that pycocoevalcap gives each caption, unaffected by its neighbours."""
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    # pycocoevalcap writes a caption to a line, without its "\n"; a "\r" would begin a line, and shift what follows.
    lines = [line for caption in captions for line in (caption.replace("\r", " "), SEPARATOR)]
    found = PTBTokenizer().tokenize({place: [{"caption": line}] for place, line in enumerate(lines)})
    return [found[place][0] for place in range(0, len(lines), 2)]


def corpora() -> list[dict[str, Any]]:
    """Small corpora of tokenised captions: the corners by hand, the rest drawn from a few words."""
    made: list[dict[str, Any]] = [
        {
            "hypotheses": {
                "tie": "a b c d",
                "empty": "",
                "one": "a",
                "repeat": "the the the the the",
                "none": "x y z w v",
            },
            "references": {
                "tie": ["a b c d e", "a b c", "e d c b a"],
                "empty": ["a dog", ""],
                "one": ["a", "b c"],
                "repeat": ["the dog the cat the", "the the"],
                "none": ["a b"],
            },
        },
        {"hypotheses": {"1": "a a", "2": "a"}, "references": {"1": ["a a"], "2": ["a a a", "a"]}},
    ]
    draw = random.Random(20141115)

    def caption() -> str:
        return " ".join(draw.choice(WORDS) for _ in range(draw.choice((0, 1, 2, 4, 6, 9, 14))))

    for items in (2, 3, 5, 8, 12, 20):
        ids = [f"image {number}" for number in range(items)]
        made.append(
            {
                "hypotheses": {image: caption() for image in ids},
                "references": {image: [caption() for _ in range(draw.randint(1, 5))] for image in ids},
            }
        )
    return made


def reference_metrics(corpus: dict[str, Any]) -> dict[str, Any]:
    """What pycocoevalcap says of a corpus: for each metric the corpus's value and the values by image."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    hypotheses = {image: [caption] for image, caption in corpus["hypotheses"].items()}
    found = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for name, scorer in (("bleu", Bleu(4)), ("rouge_l", Rouge()), ("cider", Cider())):
            whole, each = scorer.compute_score(corpus["references"], hypotheses)
            found[name] = {"corpus": _plain(whole), "items": _plain(each)}
    return found


def _plain(value):
    return [_plain(inner) for inner in value] if hasattr(value, "__len__") else float(value)


def main(folders: Sequence[str]) -> None:
    """Write the golden files."""
    captions = (HERE / "ptb_captions.txt").read_text(encoding="utf-8").split("\n")[:-1]
    lines = (
        json.dumps({"caption": caption, "tokens": tokens})
        for caption, tokens in zip(captions, java_tokens(captions), strict=True)
    )
    (HERE / "ptb_golden.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    drawn = [digest(java_tokens(drawn_captions(block))) for block in range(BLOCKS)]
    (HERE / "ptb_drawn.json").write_text(json.dumps(drawn, indent=1) + "\n", encoding="utf-8")
    golden = [{**corpus, "metrics": reference_metrics(corpus)} for corpus in corpora()]
    (HERE / "captions_golden.json").write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    for name in folders:
        folder = Path(name)
        digests = {}
        for path in annotation_files(folder):
            strings = strings_of(path)
            digests[path.relative_to(folder).as_posix()] = {
                "strings": len(strings),
                "tokens": digest(java_tokens(strings)),
            }
        (HERE / "ptb_digests.json").write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
