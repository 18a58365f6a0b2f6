"""SigLIP reads one caption in one way, whichever library and tokenizer: as its authors, or as the library, if asked."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import tiny_openclip
from numpy.typing import NDArray

from tellapart.errors import ModelError
from tellapart.models.captions import AS_AUTHORS, AS_LIBRARY
from tellapart.models.find import find_model
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch
from tellapart.training.encoders import open_dual

CAPTION, LOWER, BARE = "A Red bowl, two cups", "a red bowl, two cups", "a red bowl two cups"


def gemma(folder: Path) -> Path:
    """SigLIP 2 with a tokenizer of Gemma's class, which keeps capitals."""
    t = tiny_models.transformers()
    letters = "abcdefghijklmnopqrstuvwxyzAR,"
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *letters, "re", "red"]
    tokenizer = t.GemmaTokenizer(
        vocab={piece: k for k, piece in enumerate(pieces)}, merges=[("r", "e"), ("re", "d")], model_max_length=16,
        padding_side="right", model_input_names=["input_ids"], add_bos_token=False,
    )  # fmt: skip
    return tiny_models.save_siglip(folder, tokenizer, padding=0)


def open_clip_folder(folder: Path, embed_dim: int = 24, **changes) -> Path:
    """A folder of open_clip with SigLIP's bias, a tokenizer of transformers, and its cleaner of captions."""
    from tokenizers import normalizers

    torch, open_clip = import_torch(), import_open_clip()
    tokenizer = tiny_models.siglip2_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace(" ", "▁")  # open_clip's cleaner lowers, not it
    tokenizer.save_pretrained(folder)
    siglip = tiny_openclip.ARCHITECTURES["tiny-bidirectional"]
    text = siglip["text_cfg"] | {"vocab_size": len(tokenizer), "hf_tokenizer_name": "its own"}
    text |= {"tokenizer_kwargs": {"clean": "canonicalize"}, **changes}
    config = siglip | {"embed_dim": embed_dim, "text_cfg": text}
    content = {"model_cfg": config, "preprocess_cfg": tiny_openclip.PREPROCESSING}
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    torch.manual_seed(0)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_text=False)
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    return folder


#: Form -> the folder's maker, the name's prefix, and whether its library lowers captions and keeps their punctuation.
FORMS: dict[str, tuple[Callable[[Path], Path], str, bool, bool]] = {
    "open_clip": (open_clip_folder, "local-dir:", True, False),
    "SigLIP": (tiny_models.siglip, "", True, False),
    "SigLIP 2": (tiny_models.siglip2_fixed, "", True, True),
    "SigLIP 2 for any side": (tiny_models.siglip2_naflex, "", True, True),
    "SigLIP 2 by Gemma's class": (gemma, "", False, True),
}


@pytest.fixture(scope="module", params=FORMS)
def form(request, tmp_path_factory):
    make, prefix, lowers, keeps = FORMS[request.param]
    return f"{prefix}{make(tmp_path_factory.mktemp('siglip'))}", lowers, keeps


def vectors(name: str, *texts: str, **options) -> NDArray[np.float32]:
    return find_model(name, ModelOptions(**options)).encode_texts(texts)


def equal(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return bool(np.abs(one - other).max() < 1e-6)


def test_a_caption_is_lower_case_in_every_form_unless_the_librarys_way_is_asked_for(form):
    name, lowers, keeps = form
    caption, lower, bare = vectors(name, CAPTION, LOWER, BARE)
    assert equal(caption, lower) and not equal(caption, bare)
    assert find_model(name).texts == AS_AUTHORS
    caption, lower, bare = vectors(name, CAPTION, LOWER, BARE, texts="library")
    assert (equal(caption, lower), equal(lower, bare)) == (lowers, not keeps)
    model = find_model(name, ModelOptions(texts="library"))
    assert model.texts == AS_LIBRARY and model.fingerprint != find_model(name).fingerprint
    if not name.startswith("local-dir:"):
        with pytest.raises(ModelError, match="texts="):
            find_model(name, ModelOptions(texts="cleaned"))


def give_weights(folder: Path, source: Path) -> None:
    """Write a folder's text tower of transformers into one of open_clip."""
    from safetensors.torch import load_file

    torch, file = import_torch(), folder / "open_clip_pytorch_model.bin"
    given = {name.removeprefix("text_model."): value for name, value in load_file(source / "model.safetensors").items()}
    names = {
        "token_embedding.weight": "embeddings.token_embedding.weight",
        "positional_embedding": "embeddings.position_embedding.weight",
        **{f"ln_final.{end}": f"final_layer_norm.{end}" for end in ("weight", "bias")},
        **{f"text_projection.{end}": f"head.{end}" for end in ("weight", "bias")},
    }
    state = torch.load(file, weights_only=True)
    for layer in range(tiny_models.LAYERS):
        block, of = f"transformer.resblocks.{layer}", f"encoder.layers.{layer}"
        for end in ("weight", "bias"):
            joined = [given[f"{of}.self_attn.{side}_proj.{end}"] for side in "qkv"]
            state[f"text.{block}.attn.in_proj_{end}"] = torch.cat(joined)
            parts = {"ln_1": "layer_norm1", "ln_2": "layer_norm2", "attn.out_proj": "self_attn.out_proj"}
            parts |= {"mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}
            names |= {f"{block}.{to}.{end}": f"{of}.{part}.{end}" for to, part in parts.items()}
    state |= {f"text.{to}": given[part] for to, part in names.items()}
    torch.save(state, file)


@pytest.mark.parametrize("tanh", [True, False])
def test_one_text_tower_gives_the_same_vectors_in_both_libraries_but_for_the_activation(tanh, tmp_path):
    source, folder = tiny_models.siglip2_fixed(tmp_path / "hf"), tmp_path / "open_clip"
    folder.mkdir()
    changes = {"mlp_ratio": 2.0, "norm_kwargs": {"eps": 1e-6}, "heads": tiny_models.HEADS}
    changes |= {"act_kwargs": {"approximate": "tanh"}} if tanh else {}  # as SigLIP 2, else as SigLIP
    open_clip_folder(folder, embed_dim=tiny_models.WIDTH, **changes)
    give_weights(folder, source)
    texts = (CAPTION, "two cups", "a blue bowl, left of a red cup")
    doors = [find_model(name) for name in (f"local-dir:{folder}", f"hf:{source}")]
    assert doors[0].token_ids(texts) == doors[1].token_ids(texts)
    one, other = (door.encode_texts(texts) for door in doors)
    assert (np.abs(one - other).max() < 1e-6) is np.bool_(tanh)
    assert np.abs(one - other).max() < 1e-3
    assert [door.traits["activation"] for door in doors] == ["GELU (tanh)" if tanh else "GELU", "GELU (tanh)"]


def test_open_clip_computes_the_approximation_for_texts_of_siglip_2_alone():
    open_clip = import_open_clip()
    names = [name for name in open_clip.list_models() if "SigLIP" in name]
    for name in names:
        approximate = open_clip.get_model_config(name)["text_cfg"].get("act_kwargs", {}).get("approximate")
        assert approximate == ("tanh" if "SigLIP2" in name else None), name
    assert len(names) > 20


def test_no_mask_reaches_a_tower_that_was_trained_without_one(tmp_path):
    folder = tiny_models.siglip2_fixed(tmp_path)
    before = vectors(str(folder), *tiny_models.TEXTS[:4])
    tiny_models.edit(folder / "tokenizer_config.json", lambda config: config.pop("model_input_names"))
    model = find_model(str(folder))
    assert "attention_mask" in model.towers.reader.tokenizer.model_input_names
    assert equal(model.encode_texts(tiny_models.TEXTS[:4]), before)


def test_training_reads_captions_as_measuring_does(tmp_path):
    trained = open_dual(str(gemma(tmp_path)), "cpu")
    ids = [trained.tokens([text])["input_ids"].tolist() for text in (CAPTION, LOWER, BARE)]
    assert ids[0] == ids[1] != ids[2]
