"""Small real files for every stage: a tagger and a splitter of NLTK's, models of transformers, nouns of WordNet's."""

import json
from pathlib import Path

import pytest

from pictures import plain
from sets import write_file
from tellapart.models.torch.backend import import_torch

WORDS = "a an the two dog dogs cat cats poodle man men horse table on with sits rides . ,".split()  # noqa: SIM905
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

#: What WordNet's files say of them: lemma -> what it is a kind of.
KINDS = {"entity": "", "animal": "entity", "dog": "animal", "poodle": "dog"}
KINDS |= {"cat": "animal", "horse": "animal", "man": "entity", "table": "entity"}


def write_nltk(folder: Path) -> Path:
    """A perceptron whose every word has one tag, and a splitter that knows one abbreviation."""
    punkt = folder / "tokenizers/punkt_tab/english"
    tagger = folder / "taggers/averaged_perceptron_tagger_eng"
    punkt.mkdir(parents=True)
    tagger.mkdir(parents=True)
    files = {"abbrev_types.txt": "mr\n", "collocations.tab": "##number##\tdogs\n", "ortho_context.tab": "dog\t42\n"}
    for name, text in (files | {"sent_starters.txt": "the\n"}).items():
        (punkt / name).write_text(text)
    tags = dict.fromkeys(("dog", "cat", "poodle", "man", "horse", "table"), "NN")
    tags |= dict.fromkeys(("dogs", "cats", "men"), "NNS") | dict.fromkeys(("a", "an", "the"), "DT")
    tags |= {"two": "CD", "on": "IN", "with": "IN", "sits": "VBZ", "rides": "VBZ", ".": ".", ",": ","}
    tags |= {word.title(): tag for word, tag in tags.items() if word.isalpha()}
    stem = tagger / "averaged_perceptron_tagger_eng"
    Path(f"{stem}.weights.json").write_text(json.dumps({"bias": {"JJ": 1.0, "NN": -1.0}}))
    Path(f"{stem}.tagdict.json").write_text(json.dumps(tags))
    Path(f"{stem}.classes.json").write_text(json.dumps(sorted({*tags.values(), "JJ"})))
    return folder


def _tokenizer():
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: k for k, word in enumerate([*_SPECIAL, *WORDS, "##s"])}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token=_SPECIAL[1]))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    marks = {f"{mark[1:-1].lower()}_token": mark for mark in _SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **marks)


def write_model(folder: Path, kind: str, seed: int) -> None:
    """A `BertForMaskedLM`, `BertModel` or `GPT2LMHeadModel` of two layers."""
    import torch
    import transformers

    torch.manual_seed(seed)
    common = {"vocab_size": len(_SPECIAL) + len(WORDS) + 1, "initializer_range": 0.3}
    if kind == "GPT2LMHeadModel":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32, "bos_token_id": 2, "eos_token_id": 3}
        config = transformers.GPT2Config(**common, **sizes)
    else:
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
        config = transformers.BertConfig(**common, **sizes, max_position_embeddings=32)
    getattr(transformers, kind)(config).save_pretrained(folder)
    _tokenizer().save_pretrained(folder)


def write_wordnet(folder: Path) -> Path:
    """WordNet's own files for a few nouns; a dog is a fellow, too, in a second sense."""
    folder.mkdir(parents=True)
    numbers = {lemma: f"{k:08d}" for k, lemma in enumerate(KINDS, start=1)}
    data, index = ["  1 a licence begins with blanks"], ["  1 a licence begins with blanks"]
    for lemma, parent in KINDS.items():
        pointers = f"001 @ {numbers[parent]} n 0000" if parent else "000"
        words = "02 dog 0 domestic_dog 0" if lemma == "dog" else f"01 {lemma} 0"
        data.append(f"{numbers[lemma]} 03 n {words} {pointers} | what it is")
        senses = [numbers[lemma], *(["00000099"] if lemma == "dog" else [])]
        index.append(f"{lemma} n {len(senses)} 1 @ {len(senses)} 0 {' '.join(senses)}  ")
    data.append(f"00000099 18 n 01 fellow 0 001 @ {numbers['man']} n 0000 | a fellow")
    index.append(f"domestic_dog n 1 1 @ 1 0 {numbers['dog']}  ")
    (folder / "data.noun").write_text("\n".join(data) + "\n")
    (folder / "index.noun").write_text("\n".join(index) + "\n")
    (folder / "noun.exc").write_text("men man\n")
    return folder


@pytest.fixture(scope="session")
def parts(tmp_path_factory):
    """A folder with every stage's files: nltk, masked, encoder, causal, wordnet."""
    pytest.importorskip("torch", reason="needs the models extra: torch")
    pytest.importorskip("transformers", reason="needs the models extra: transformers")
    pytest.importorskip("nltk", reason="needs the captions extra: nltk")
    import_torch()  # makes the torchvision beside it importable, and so transformers
    folder = tmp_path_factory.mktemp("parts")
    write_nltk(folder / "nltk")
    write_model(folder / "masked", "BertForMaskedLM", seed=1)
    write_model(folder / "encoder", "BertModel", seed=2)
    write_model(folder / "causal", "GPT2LMHeadModel", seed=3)
    write_wordnet(folder / "wordnet")
    return folder


CAPTIONS = [
    ("a.png", "A dog sits on the table."),
    ("a.png", "Two cats with a man."),
    ("b.png", "a man rides a horse, a dog with two cats"),
    ("b.png", "the two"),
    ("c.png", "The men with a poodle"),
    ("c.png", "Dogs on a table."),
]


@pytest.fixture
def recipe(parts, tmp_path):
    """Write captions, images and a recipe for them, the stages all on and the range of similarity wide."""

    def write(name="recipe", **changed):
        home = tmp_path / name
        for k, image in enumerate(("a.png", "b.png", "c.png")):
            write_file(home / "images" / image, plain((40 * k, 90, 200)))
        rows = [{"id": f"{i[0]}_{k}", "image": i, "caption": said} for k, (i, said) in enumerate(CAPTIONS)]
        write_file(home / "captions.jsonl", rows)
        options = {"captions": "captions.jsonl", "images": "images", "tagger": f"nltk:{parts / 'nltk'}"}
        models = {"masked_lm": "masked", "similarity": "encoder", "language_model": "causal"}
        options |= {key: str(parts / folder) for key, folder in models.items()}
        options |= {"minimum": -1.0, "maximum": 0.999} | changed
        lines = [f"{key} = {json.dumps(value)}" for key, value in options.items()]
        path = home / "recipe.toml"
        head = 'name = "few"\nbuilder = "counterfactual-captions"\nseed = 5\n[options]\n'
        path.write_text(head + "\n".join(lines) + "\n")
        return path

    return write
