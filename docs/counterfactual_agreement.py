"""Hold the stages of `counterfactual-captions` against the 24,508 released counterfactuals of COCO-Counterfactuals.

    python docs/counterfactual_agreement.py --data DIR --nltk DIR --encoder DIR --wordnet DIR --language-model FILE

The authors' masked language model and judge have no part in it: words are proposed by what their model proposed for the
same noun in other captions, and a small model judges.
"""

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from typer import Option

from tellapart.builders.captions import stages
from tellapart.builders.captions.counterfactuals import replace_word
from tellapart.models.text.tinystories import TinyStories
from tellapart.models.torch.backend import Runtime

RECORD = Path(__file__).with_name("counterfactual_agreement.json")
INPUTS, RELEASED = "input_cap_val_2017.txt", "generated_sim_0.8_0.91.txt"
LOW, HIGH = 0.8, 0.91

Record = dict[str, Any]
Folder = Annotated[Path, Option()]


class Pair(NamedTuple):
    """A released pair: the caption with blanks as one, its words, and where and by what one of them was replaced."""

    id: str
    caption: str
    released: str
    words: list[stages.Word]
    place: int
    new: stages.Word


def read(path: Path) -> list[list[str]]:
    """Return the tab-separated rows of a file."""
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def align(rows: Sequence[Sequence[str]], tagger: stages.NltkTagger) -> tuple[list[Pair], Record]:
    """Find the replaced word of each released pair, and count what the tagger says of it."""
    pairs, counts = [], Counter(pairs=len(rows))
    for name, original, released in rows:
        caption = " ".join(original.split())
        words, others = tagger.read(caption), tagger.read(released)
        places = [k for k, (a, b) in enumerate(zip(words, others, strict=False)) if a.text != b.text]
        if len(words) != len(others) or len(places) != 1:
            counts["not_one_word"] += 1
            continue
        (place,) = places
        before, after = words[place].tag in stages.NOUNS, others[place].tag in stages.REPLACEMENTS
        counts.update(one_word=1, noun_before=before, noun_after=after, noun_before_and_after=before and after)
        for wording in ("rejoined", "kept"):
            counts[f"same_text_{wording}"] += (
                replace_word(caption, words, place, others[place].text, wording) == released  # type: ignore[arg-type]
            )
        pairs.append(Pair(name, caption, released, words, place, others[place]))
    return pairs, dict(counts)


def inputs_of(rows: Sequence[Sequence[str]], released: set[str], tagger: stages.NltkTagger) -> Record:
    """Count the input captions, those without a counterfactual, and how many of these have no noun by the tagger."""
    without = [row for row in rows if row[0] not in released]
    nouns = [sum(word.tag in stages.NOUNS for word in tagger.read(" ".join(row[1].split()))) for row in without]
    return {"captions": len(rows), "without_counterfactual": len(without), "of_them_without_noun": nouns.count(0)}


def alike(encoder: stages.MeanPooledEncoder, text: str, others: Sequence[str]) -> NDArray[np.float32]:
    """Return the similarity of a text with each of others."""
    vectors = encoder.encode([text, *others])
    return stages.cosines(vectors[0], vectors[1:])


def similarity_of(pairs: Sequence[Pair], encoder: stages.MeanPooledEncoder) -> Record:
    """Return where the similarity of released pairs lies; the authors kept (0.8, 0.91]."""
    values = np.array([alike(encoder, pair.caption, [pair.released])[0] for pair in pairs], np.float64)
    inside = (values > LOW) & (values <= HIGH)
    beyond = np.maximum(LOW - values, values - HIGH)[~inside]
    return {
        "pairs": len(pairs),
        "inside": int(inside.sum()),
        "lowest": round(float(values.min()), 6),
        "highest": round(float(values.max()), 6),
        "mean": round(float(values.mean()), 6),
        "outside_by_mean": round(float(beyond.mean()), 6) if beyond.size else 0.0,
        "outside_by_most": round(float(beyond.max()), 6) if beyond.size else 0.0,
    }


def relations_of(pairs: Sequence[Pair], wordnet: stages.WordNet) -> Record:
    """Count how the new noun is related to the old one, by the most frequent sense alone and by all."""
    found: Record = {"pairs": len(pairs)}
    for name, senses in (("first_sense", 1), ("all_senses", None)):
        counts = Counter(
            wordnet.relation(pair.words[pair.place].text, pair.new.text, senses) or "neither" for pair in pairs
        )
        found[name] = dict(sorted(counts.items()))
    return found


def choice_of(
    pairs: Sequence[Pair], some: Sequence[Pair], encoder: stages.MeanPooledEncoder, judge: TinyStories
) -> Record:
    """Choose by similarity and perplexity among the authors' ten most frequent words for the nouns elsewhere."""
    proposed: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        proposed[pair.words[pair.place].text.lower()][pair.new.text] += 1
    sizes, ranks, same_noun = [], [], 0
    for pair in some:
        drafts = {pair.released: pair.place}
        for place, word in enumerate(pair.words):
            known = Counter(proposed[word.text.lower()]) if word.tag in stages.NOUNS else Counter[str]()
            if place == pair.place:
                known[pair.new.text] -= 1  # its own, which it is to be told from
            for new, n in known.most_common(10):
                if n > 0:
                    drafts.setdefault(replace_word(pair.caption, pair.words, place, new, "rejoined"), place)
        others = [text for text in drafts if text != pair.released]
        near = alike(encoder, pair.caption, others) if others else np.zeros(0)
        texts = [pair.released, *(t for t, value in zip(others, near, strict=True) if LOW < value <= HIGH)]
        scores = judge.score_texts(texts)
        ranks.append(int((scores > scores[0]).sum()) + 1)
        sizes.append(len(texts))
        same_noun += drafts[texts[int(scores.argmax())]] == pair.place
    places = [(rank - 1) / (size - 1) for rank, size in zip(ranks, sizes, strict=True) if size > 1]
    return {
        "captions": len(some),
        "choices_mean": round(statistics.mean(sizes), 3),
        "same_choice": ranks.count(1),
        "same_choice_expected_by_chance": round(sum(1 / size for size in sizes), 2),
        "same_noun": same_noun,
        "relative_rank_mean": round(statistics.mean(places), 4),
        "relative_rank_by_chance": 0.5,
    }


def main(
    *,
    data: Folder,
    nltk: Folder,
    encoder: Folder,
    wordnet: Folder,
    language_model: Folder,
    similar: Annotated[int, Option(help="pairs whose similarity is measured, spread evenly")] = 3000,
    chosen: Annotated[int, Option(help="captions whose counterfactual is chosen, spread evenly")] = 200,
) -> None:
    """Measure, and write the record."""
    tagger, relations = stages.NltkTagger.load(nltk), stages.WordNet(wordnet)
    vectors = stages.MeanPooledEncoder.load(str(encoder), Runtime("cpu"))
    judge = TinyStories.load(language_model, per_token=True)
    rows = read(data / RELEASED)
    pairs, words = align(rows, tagger)
    parts = {"tagger": tagger, "encoder": vectors, "wordnet": relations, "language_model": judge}
    record = {
        "inputs": inputs_of(read(data / INPUTS), {row[0] for row in rows}, tagger),
        "words": words,
        "similarity": similarity_of(pairs[:: max(1, len(pairs) // similar)][:similar], vectors),
        "wordnet": relations_of(pairs, relations),
        "choice": choice_of(pairs, pairs[:: max(1, len(pairs) // chosen)][:chosen], vectors, judge),
        "parts": {name: part.fingerprint for name, part in parts.items()},
        "versions": {name: version(name) for name in ("tellapart", "nltk", "torch", "transformers")},
        "measured": datetime.now(UTC).date().isoformat(),
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    typer.run(main)
