"""CLIP-FlanT5 in its authors' files: VQAScore's exact number, beside their code's and beside transformers' own T5."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tiny_generative import CLOSE, IMAGES, PAIRS, both, load, read_as, t5_tokenizer
from tiny_models import check_neighbours

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.generative.encoder_decoder import FORMATS, EncoderDecoderModel
from tellapart.models.huggingface.files import quiet
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import Runtime

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[4] / "shared" / "data" / "native"

SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)

T5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
}  # fmt: skip
VISION = {
    "hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2,
    "image_size": 56, "patch_size": 14, "hidden_act": "quick_gelu", "projection_dim": 16,
}  # fmt: skip
SEEN = {
    "mm_hidden_size": 24, "mm_vision_select_layer": -2, "mm_vision_select_feature": "patch",
    "mm_projector_type": "mlp2x_gelu", "mm_use_im_start_end": False,
}  # fmt: skip


def save(folder: Path, state: dict[str, Any], words, t5: dict[str, Any], vision: dict[str, Any]) -> None:
    """The released layout: one .bin, the configuration of the T5 that it was trained from, and a CLIP elsewhere."""
    tower = folder.with_name(folder.name + "-tower")
    folder.mkdir()
    torch.save(state, folder / "pytorch_model.bin")
    seen = SEEN | {"mm_vision_tower": str(tower), "architectures": ["CLIPT5ForConditionalGeneration"]}
    (folder / "config.json").write_text(json.dumps({"model_type": "t5", **t5, **seen}))
    words.save_pretrained(folder)
    transformers.CLIPConfig(vision_config=vision).save_pretrained(tower)
    square = {"size": {"shortest_edge": 56}, "crop_size": {"height": 56, "width": 56}}
    transformers.CLIPImageProcessor(**square).save_pretrained(tower)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder, and its parts: the library's own T5 and CLIP of random weights, and a projection."""
    folder, words = tmp_path_factory.mktemp("clip_flan_t5") / "model", t5_tokenizer()
    rows = len(words) + 5  # FlanT5 has more rows than its tokenizer entries
    torch.manual_seed(3)
    t5 = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=rows, **T5)).eval()
    t5.lm_head.weight = torch.nn.Parameter(torch.randn(rows, 32))  # is not the embedding
    tower = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**VISION)).eval()
    projection = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.GELU(), torch.nn.Linear(32, 32)).eval()
    for parameter in itertools.chain(*(module.parameters() for module in (t5, tower, projection))):
        if parameter.ndim > 1 and parameter is not t5.lm_head.weight:
            torch.nn.init.normal_(parameter, std=1.5 / parameter.shape[-1] ** 0.5)
    inner = "vision_tower.vision_tower.vision_model."
    state = {name: tensor.clone() for name, tensor in t5.state_dict().items()}
    state |= {"embed_tokens.weight": state["shared.weight"], f"{inner}embeddings.position_ids": torch.arange(17)[None]}
    state |= {f"mm_projector.{name}": tensor for name, tensor in projection.state_dict().items()}
    state |= {inner + name.removeprefix("vision_model."): tensor for name, tensor in tower.state_dict().items()}
    with quiet():
        save(folder, state, words, T5 | {"vocab_size": rows}, VISION)
    return folder, t5, tower, projection


def read(folder: Path, reading: str | None = None):
    return find_model(f"hf:{folder}", ModelOptions(reading=reading))


def library_score(made: tuple[Path, Any, Any, Any], image, text: str) -> float:
    """VQAScore by the library's T5, in float64: exp of less the mean cross-entropy over "Yes" and the end."""
    folder, *parts = made
    words = transformers.AutoTokenizer.from_pretrained(folder)
    height, width, side = *image.shape[:2], max(image.shape)
    square = np.full((side, side, 3), (122, 116, 104), np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    square[top : top + height, left : left + width] = image
    processor = transformers.AutoImageProcessor.from_pretrained(f"{folder}-tower", backend="pil")
    pixels = processor(images=[Image.fromarray(square)], return_tensors="pt")["pixel_values"].double()
    texts = (f"{SYSTEM} USER: ", f'\nDoes this figure show "{text}"? Please answer yes or no. ASSISTANT: ')
    with torch.no_grad():
        t5, tower, projection = (part.double() for part in parts)
        patches = projection(tower(pixels, output_hidden_states=True).hidden_states[-2][:, 1:])
        before, after = (t5.shared(words(part, return_tensors="pt").input_ids) for part in texts)
        labels = words("Yes", return_tensors="pt").input_ids
        out = t5(inputs_embeds=torch.cat([before, patches, after], 1), labels=labels)
    assert labels[0, -1] == words.eos_token_id
    logs = out.logits[0, :, : len(words)].log_softmax(-1)
    return float(logs[range(labels.shape[1]), labels[0]].mean().exp())


def test_vqascore_is_exp_of_the_mean_over_yes_and_the_end(made):
    model, plain = read(made[0]), read(made[0], "vqa")
    ours = check_neighbours(model.score_pairs, *both(PAIRS))
    want = [library_score(made, image, text) for image, text in PAIRS]
    np.testing.assert_allclose(ours, want, rtol=1e-4, atol=0)
    assert len(set(ours.tolist())) == len(PAIRS)
    assert (plain.score_pairs(*both(PAIRS)) != ours).all()
    assert model.fingerprint != plain.fingerprint


def test_answers_follow_the_image(made):
    model = read(made[0])
    prompt = model.task_prompt("vqa").fill(question="what is it?")
    one, other = (model.answer([[image]], [prompt], max_new_tokens=5)[0] for image in IMAGES[:2])
    assert one != other
    with raises(ModelError, "2", "one image", "chat"):
        model.answer([[IMAGES[0], IMAGES[1]]], [prompt])


def test_files_that_do_not_fit_are_refused(made, tmp_path):
    folder, words = made[0], t5_tokenizer()
    state, config = torch.load(folder / "pytorch_model.bin"), json.loads((folder / "config.json").read_text())

    def altered(name, drop: tuple[str, ...] = (), **settings):
        tensors = {key: tensor for key, tensor in state.items() if not key.startswith(drop)}
        with quiet():
            save(tmp_path / name, tensors, words, T5 | {"vocab_size": config["vocab_size"]}, VISION)
        (tmp_path / name / "config.json").write_text(json.dumps(config | settings))
        return tmp_path / name

    projectors = ("mm_projector_type", "'resampler'", "'linear'", "'mlp2x_gelu'")
    for name, changes, facts in (
        ("blind", {"drop": ("vision_tower.",)}, ("vision_tower", "missing")),
        ("headless", {"drop": ("lm_head",)}, ("1", "lm_head.weight")),
        ("other", {"mm_projector_type": "resampler"}, projectors),
        ("towerless", {"mm_vision_tower": str(tmp_path / "nowhere")}, ("CLIP", "mm_vision_tower")),
    ):
        with raises(ModelError, facts):
            read(altered(name, **changes))
    with raises(ModelError, "'choice'", "vqa_end", "yes_no"):
        read(folder, "choice")
    words.add_tokens([f"w{k}" for k in range(9)])
    with raises(ModelError, "google/flan-t5-xl", "tokenizer", "rows"):
        read(altered("longer"))


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the authors' tiny files are not here (shared/data/native)")
def test_scores_equal_the_authors_code(tmp_path):
    from safetensors.torch import load_file
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
    from tokenizers.processors import TemplateProcessing

    held = load_file(GOLDEN / "clip_flant5_tiny.safetensors")
    facts = json.loads((GOLDEN / "clip_flant5_tiny.json").read_text())
    # Their stand-in for a tokenizer gave one id to each word; here words become ids by rules, and ids are the entries.
    ids = {"Yes": int(held["input.labels"][0])}
    for text, row in zip(facts["prompt"]["formatted"], held["input.input_ids"].tolist(), strict=True):
        ids |= zip(text.replace("<image>", " ").split(), [k for k in row if k not in {0, 1, -200}], strict=True)
    entries = {f"{k:02}": k for k in range(2, facts["config"]["t5"]["vocab_size"])} | {"<pad>": 0, "</s>": 1}
    backend = Tokenizer(models.WordLevel(entries, next(iter(entries))))
    rules = [(rf"(?<!\S){re.escape(word)}(?!\S)", f"{index:02}") for word, index in ids.items()]
    backend.normalizer = normalizers.Sequence([normalizers.Replace(Regex(rule), entry) for rule, entry in rules])
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = {"pad_token": "<pad>", "eos_token": "</s>"}
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    state = {key: held[key].clone() for key in held if key.split(".")[0] not in {"input", "output", "preprocess"}}
    with quiet():
        save(tmp_path / "golden", state, words, facts["config"]["t5"], facts["config"]["vision"])
    images = [held[f"preprocess.image_{k}"].numpy() for k in range(3)]
    model = read(tmp_path / "golden")
    ours = [model.score_pairs([image] * 3, facts["prompt"]["captions"]) for image in images]
    np.testing.assert_allclose(ours, held["output.vqascore"].numpy(), rtol=0, atol=1e-6)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the published layouts are not here (shared/data/native)")
def test_the_published_names_and_shapes_are_read():
    from tellapart.models.generative.clip_flan_t5 import ClipFlanT5, _configure_t5

    published = json.loads((GOLDEN / "clip_flant5_layout.json").read_text())["variants"]["xl"]
    config = published["config"]["t5"] | SEEN | {"mm_vision_tower": "openai/clip-vit-large-patch14-336"}
    vision = transformers.CLIPVisionConfig(**published["config"]["vision"])
    with torch.device("meta"):
        model = ClipFlanT5(_configure_t5("xl", config, vision))
    ours = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    twice = {"embed_tokens.weight", "vision_tower.vision_tower.vision_model.embeddings.position_ids"}
    theirs = {name: shape for name, (shape, _) in published["keys"].items() if name not in twice}

    def named(shapes):  # as transformers 5 calls the vision tower
        return {name.replace("vision_tower.vision_model.", "vision_tower."): shape for name, shape in shapes.items()}

    assert named(ours) == named(theirs)


def library_logs(folder: Path, image, prompt: str, answer: str) -> list[float]:
    """The log-probability of each token of the answer and of its end: one forward with the answer as labels."""
    model, processor = load(folder)
    prompt = FORMATS[model.config.model_type][0].format(prompt=prompt)
    inputs = processor(images=[Image.fromarray(image)], text=[prompt], return_tensors="pt")
    labels = processor.tokenizer(answer, return_tensors="pt").input_ids
    with torch.no_grad():
        logits = model(**inputs, labels=labels).logits
    logs = logits[0].log_softmax(-1)[range(labels.shape[1]), labels[0]].tolist()
    return logs[1:] if labels[0, 0] == processor.tokenizer.bos_token_id else logs


@pytest.mark.parametrize("family", ["blip-2", "instructblip", "florence2"])
def test_a_caption_is_as_likely_as_to_the_library(folders, family):
    model, mean = (read_as(reading, folders[family]) for reading in ("likelihood", "mean_likelihood"))
    logs = [library_logs(folders[family], image, model.prompt.text, text) for image, text in PAIRS]
    values = check_neighbours(model.log_likelihoods, *both(PAIRS))
    np.testing.assert_allclose(values, [sum(each) for each in logs], rtol=CLOSE)
    np.testing.assert_allclose(mean.log_likelihoods(*both(PAIRS)), [np.mean(each) for each in logs], rtol=CLOSE)
    assert len({*values.tolist()}) == len(PAIRS)


@pytest.mark.parametrize("family", ["blip-2", "instructblip"])
def test_vqascore_with_the_end_of_yes_is_the_geometric_mean(folders, family):
    with_end, plain = (read_as(reading, folders[family]) for reading in ("vqa_end", "vqa"))
    pairs, ask = PAIRS[:4], with_end.prompt.fill
    logs = [library_logs(folders[family], image, ask(text=text), "Yes") for image, text in pairs]
    ended, plainly = (np.log(scorer.score_pairs(*both(pairs))) for scorer in (with_end, plain))
    np.testing.assert_allclose(ended, [np.mean(each) for each in logs], rtol=CLOSE)
    np.testing.assert_allclose(plainly, [sum(each[:-1]) for each in logs], rtol=CLOSE)
    assert with_end.fingerprint != plain.fingerprint


def test_an_answer_is_the_library_s_greedy_one_and_another_family_is_refused(folders):
    model, processor = load(folders["blip-2"])
    text = "Question: what is it? Answer:"
    inputs = processor(images=[Image.fromarray(IMAGES[1])], text=[text], return_tensors="pt")
    with torch.no_grad():
        out = model.generate(**inputs, max_new_tokens=6, do_sample=False, num_beams=1)
    want = processor.tokenizer.decode(out[0], skip_special_tokens=True).strip()
    assert read_as("vqa", folders["blip-2"]).answer([[IMAGES[1]]], ["what is it?"], max_new_tokens=6) == [want]
    with raises(ModelError, "format", "'llava'", "blip-2"):
        EncoderDecoderModel("x", *load(folders["llava"]), Runtime("cpu"))
