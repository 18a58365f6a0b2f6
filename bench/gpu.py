"""What a GPU's time goes to: models alone, tellapart on prepared images, tellapart from files.

    python bench/gpu.py --out gpu.json                       # within nine minutes; parts that do not fit are named
    python bench/gpu.py --device cpu --tiny --out gpu.json   # to see that it works

Models have random weights, so that no network is needed, but these wheels beside torch, torchvision and transformers:

    python -m pip wheel --no-deps -w wheels . open_clip_torch timm ftfy wcwidth pydantic pydantic-core \
        annotated-types typing-extensions typing-inspection
    python -m pip install --no-index --no-deps wheels/*.whl

A flip is an item whose better text is another one than on the CPU in float32; random weights have close scores.
"""

import os
import signal
import sys
import tempfile
import time
import tomllib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from record import circumstances, run_bench, time_call

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.models.fusion.families import BLIP, Blip, prepare_pixels
from tellapart.models.fusion.scoring import FusionScorer, TorchFusionEncoder
from tellapart.models.generative.chat import ChatModel
from tellapart.models.generative.readings import CaptionLikelihood
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.openclip.dual_encoder import make_dual as make_openclip
from tellapart.models.openclip.weights import Parts
from tellapart.models.options import ModelOptions
from tellapart.models.scoring.score import score
from tellapart.models.store.batches import available_cores, prefetch
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import import_torch, runtime
from tellapart.models.torch.dual_encoder import TorchDual
from tellapart.records.machine import versions

#: The type that speed is measured in.
DTYPE = "bfloat16"
DUALS = ("ViT-B-32", "ViT-B-16", "ViT-L-14", "ViT-SO400M-14-SigLIP")
WORDS = ("red", "blue", "small", "man", "woman", "dog", "cat", "table", "street", "cup", "stands", "sits", "near")

#: Seconds that a part may take beyond the end of the time, before it is stopped.
_GRACE = 40


@dataclass
class Bench:
    """The settings of a run, its clock, and its pictures in a folder."""

    device: str
    tiny: bool
    seconds: float
    folder: Path
    began: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        """Seconds until the run must have ended."""
        return self.seconds - (time.perf_counter() - self.began)

    def count(self, full: int, tiny: int) -> int:
        """Return how many samples, in full or tiny."""
        return tiny if self.tiny else full

    def rate(self, compute: Callable[[], int], least: float = 2.0) -> float:
        """Return samples a second of what computes some samples a call, after one call to warm up."""
        torch = import_torch()
        wait = torch.cuda.synchronize if self.device == "cuda" else lambda: None
        compute()
        wait()
        began, done = time.perf_counter(), 0
        while True:
            done += compute()
            wait()
            if (spent := time.perf_counter() - began) > (0.0 if self.tiny else least):
                return round(done / spent, 2)

    def pairs(self, n: int) -> PairSet:
        """Return items of one JPEG of 500 by 375 and two texts; the files are written if they are not there."""
        from PIL import Image

        draw, items = np.random.default_rng(0), []
        for k in range(n):
            file, grid = self.folder / f"{k}.jpg", draw.integers(0, 256, (12, 16, 3), dtype=np.uint8)
            if not file.exists():
                Image.fromarray(grid).resize((500, 375), Image.Resampling.BICUBIC).save(file, quality=90)
            texts = tuple(" ".join(draw.choice(WORDS, 10)) + f" {k} {side}" for side in "ab")
            items.append(Item(id=str(k), images=(file.name,), texts=texts))
        return PairSet("gpu", tuple(items), self.folder)


def compare_with_cpu(
    make: Callable[[str, str], Any], pairs: PairSet, device: str, dtypes: Sequence[str]
) -> dict[str, Any]:
    """Compare a model's scores by each dtype with those on the CPU; `make` takes a device and a dtype."""

    def scores_of(model: Any) -> np.ndarray:
        return score(model, pairs, store=EmbeddingStore(None)).scores.values[:, 0]

    reference, record = scores_of(make("cpu", "float32")), {}
    for dtype in dtypes:
        found = scores_of(make(device, dtype))
        record[f"{dtype}_against_cpu"] = {
            "largest_difference": float(np.abs(found.astype(np.float64) - reference).max()),
            "flips": int(((found[:, 0] > found[:, 1]) != (reference[:, 0] > reference[:, 1])).sum()),
            "items": len(found),
            "median_gap": float(np.median(np.abs(np.diff(reference)))),
        }
    return record


def measure_decoding(bench: Bench) -> dict[str, Any]:
    """Decode and prepare files for ViT-B/32 in 1, 2, 4, ... threads: images a second."""
    model, _ = make_dual("tiny" if bench.tiny else "ViT-B-32", "cpu", "float32")
    pairs = bench.pairs(bench.count(1024, 8))
    names = [item.images[0] for item in pairs.items]
    rates, workers = {}, 1
    while workers <= max(available_cores(), 1):
        prepared = prefetch(lambda name: model.prepare_image(pairs.pixels(name)), names, workers=workers)
        rates[str(workers)] = round(len(names) / time_call(lambda prepared=prepared: deque(prepared, 0))[1], 2)
        workers *= 2
    found: dict[str, Any] = {"images_per_second_by_threads": rates}
    if bench.device == "cuda":
        few = names[:256]
        try:
            found["on_gpu"] = measure_gpu_decoding([bench.folder / name for name in few], list(map(pairs.pixels, few)))
        except (RuntimeError, OSError, ImportError) as error:  # a torchvision without nvJPEG
            found["on_gpu_left_out"] = _write_failure(error)
    return found


def measure_gpu_decoding(files: list[Path], pixels: list[np.ndarray]) -> dict[str, Any]:
    """Decode JPEG files on the GPU: files a second, and how far the pixels are from those that are promised."""
    torch = import_torch()
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    data = [read_file(str(file)) for file in files]
    decode_jpeg(data[:8], mode=ImageReadMode.RGB, device="cuda")
    torch.cuda.synchronize()
    began = time.perf_counter()
    decoded = [picture for start in range(0, len(data), 64)
               for picture in decode_jpeg(data[start : start + 64], mode=ImageReadMode.RGB, device="cuda")]  # fmt: skip
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    arrays = [picture.permute(1, 2, 0).cpu().numpy().astype(int) for picture in decoded]
    largest = [int(np.abs(array - other).max()) for array, other in zip(arrays, pixels, strict=True)]
    return {
        "images_per_second": round(len(data) / seconds, 2),
        "largest_difference": max(largest),
        "pictures_that_differ": sum(map(bool, largest)),
        "pictures": len(largest),
    }


def measure_dual(bench: Bench, name: str) -> dict[str, Any]:
    """Measure a dual encoder: alone, compiled, on prepared images, from files; and its scores against the CPU's."""
    torch, found = import_torch(), {}
    if bench.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    model, module = make_dual(name, bench.device, DTYPE)
    pairs = bench.pairs(bench.count(4096, 8))
    pool = [model.prepare_image(pairs.pixels(item.images[0])) for item in pairs.items[: bench.count(1024, 4)]]
    size = 64 if bench.device == "cuda" else 4
    (pixels,) = pool[0].values()
    side = max(pixels.shape)  # channels first or last
    batch = torch.randn(size, 3, side, side, device=bench.device, dtype=getattr(torch, DTYPE))

    def bare(forward: Any) -> int:
        with torch.inference_mode():
            forward(batch)
        return size

    found["batch"] = size
    found["bare"] = bench.rate(lambda: bare(module.encode_image))
    total, step = bench.count(20000, 8), model.batch_size
    prepared = [pool[k % len(pool)] for k in range(total)]
    model.encode_images(prepared[:step])
    parts = [prepared[start : start + step] for start in range(0, total, step)]
    found["prepared"] = round(total / time_call(lambda: [model.encode_images(part) for part in parts])[1], 2)
    found["prepared_share"] = round(found["prepared"] / found["bare"], 3)
    result = score(model, pairs, store=EmbeddingStore(bench.folder / f"{name}.sqlite"))
    found["from_files"] = round(len(pairs) / result.seconds, 2)
    found["from_files_share"] = round(found["from_files"] / found["bare"], 3)
    if bench.device == "cuda":
        found["peak_bytes"] = int(torch.cuda.max_memory_allocated())
    few, dtypes = bench.pairs(bench.count(64, 4)), (DTYPE, "float32", "float16")
    found |= compare_with_cpu(lambda *asked: make_dual(name, *asked)[0], few, bench.device, dtypes)
    found["texts"] = measure_texts(bench, model, module)
    if bench.tiny or bench.left < 60:
        found["compiled_left_out"] = "tiny" if bench.tiny else "no time was left"
    else:
        compiled = torch.compile(module.encode_image)
        try:
            found["compiled"] = bench.rate(lambda: bare(compiled))
        except (RuntimeError, OSError) as error:  # no compiler of C there, for example
            found["compiled_left_out"] = _write_failure(error)
    return found


def measure_texts(bench: Bench, model: Any, module: Any) -> dict[str, Any]:
    """Encode captions of which ten begin alike: texts a second, beginnings shared and apart, and of the tower alone."""
    torch, draw = import_torch(), np.random.default_rng(0)
    count = bench.count(4096, 20)
    starts = [" ".join(draw.choice(WORDS, 10)) for _ in range(-(-count // 10))]
    texts = [f"{start} {word}" for start in starts for word in WORDS[:10]][:count]

    def encode() -> int:
        model.encode_texts(texts)
        return len(texts)

    ids = torch.tensor(model.token_ids(texts[: model.batch_size]), device=bench.device)

    def bare() -> int:
        with torch.inference_mode():
            module.encode_text(ids)
        return len(ids)

    found: dict[str, Any] = {"shared": bool(model.shares_beginnings), "from_texts": bench.rate(encode)}
    if model.shares_beginnings:
        hook = module.transformer.register_forward_hook(lambda *_: None)  # then its modules are not those known
        found["apart"] = bench.rate(encode)
        hook.remove()
    return found | {"bare": bench.rate(bare)}


def measure_itm(bench: Bench) -> dict[str, Any]:
    """Measure BLIP's matching head: pairs a second alone, and from files; its scores against the CPU's."""
    torch = import_torch()
    model, module = make_itm(bench.device, DTYPE, tiny=bench.tiny)
    side, size = module.config.vision_config.image_size, 32 if bench.device == "cuda" else 4
    pixels = torch.randn(size, 3, side, side, device=bench.device, dtype=getattr(torch, DTYPE))
    ids = torch.full((2 * size, 16), 7, device=bench.device)

    def bare() -> int:
        """Each image once, and each of its two texts."""
        with torch.inference_mode():
            states = module.vision_model(pixel_values=pixels).last_hidden_state.repeat_interleave(2, 0)
            hidden = module.text_encoder(
                input_ids=ids, attention_mask=torch.ones_like(ids), encoder_hidden_states=states
            ).last_hidden_state
            module.itm_head(hidden[:, 0])
        return 2 * size

    found: dict[str, Any] = {"bare_pairs": bench.rate(bare)}
    pairs = bench.pairs(bench.count(512, 4))
    result = score(model, pairs, store=EmbeddingStore(None))
    found["pairs_from_files"] = round(result.pairs_scored / result.seconds, 2)
    found["from_files_share"] = round(found["pairs_from_files"] / found["bare_pairs"], 3)
    few = bench.pairs(bench.count(16, 4))
    make = lambda *asked: make_itm(*asked, tiny=bench.tiny)[0]  # noqa: E731
    return found | compare_with_cpu(make, few, bench.device, (DTYPE, "float32"))


def measure_writer(bench: Bench, name: str) -> dict[str, Any]:
    """Measure a writer's likelihoods: images a second alone, with one text an image and with four."""
    torch = import_torch()
    model, module, processor = make_writer(name, bench.device, DTYPE)
    pairs = bench.pairs(bench.count(24, 2))
    images = [pairs.pixels(item.images[0]) for item in pairs.items]
    text = processor.tokenizer.decode(processor.tokenizer(pairs.items[0].texts[0]).input_ids)
    rendered = f"<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{text}"
    inputs = processor(text=[rendered], images=[images[0]], return_tensors="pt").to(bench.device)
    inputs["pixel_values"] = inputs["pixel_values"].to(getattr(torch, DTYPE))

    def bare() -> int:
        with torch.inference_mode():
            module(**inputs)
        return 1

    found: dict[str, Any] = {"parameters": model.parameters, "tokens": int(inputs["input_ids"].shape[1])}
    found["bare"] = bench.rate(bare)
    for texts in (1, 4):
        many = [image for image in images for _ in range(texts)]
        captions = [f"{pairs.items[k // texts].texts[0]} {k % texts}" for k in range(len(many))]
        model.log_likelihoods(many[:texts], captions[:texts])
        seconds = time_call(partial(model.log_likelihoods, many, captions))[1]
        found[f"images_with_{texts}"] = round(len(images) / seconds, 2)
    found["cost_of_four_over_one"] = round(found["images_with_1"] / found["images_with_4"], 3)
    if bench.device == "cuda":
        found["peak_bytes"] = int(torch.cuda.max_memory_allocated())
    return found


def plan(bench: Bench) -> dict[str, tuple[float, Callable[[], dict[str, Any]]]]:
    """Return the parts, the most telling first: name -> the seconds it needs at least (a guess), and the measure."""
    duals, writers = (("tiny",), ("writer-tiny",)) if bench.tiny else (DUALS, ("writer-2b", "writer-7b"))
    return {
        "decoding": (15, partial(measure_decoding, bench)),
        **{name: (40, partial(measure_dual, bench, name)) for name in duals[:3]},
        "blip-itm": (30, partial(measure_itm, bench)),
        **{name: (60, partial(measure_writer, bench, name)) for name in writers},
        **{name: (60, partial(measure_dual, bench, name)) for name in duals[3:]},
    }


def measure(device: str = "cuda", tiny: bool = False, seconds: float = 480.0) -> dict[str, Any]:
    """Measure what the seconds allow, with `tiny` models to see that it works; what is left out is named with why."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch = import_torch()
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU here; to see that this works: --device cpu --tiny")
    record = circumstances(device)
    record |= {"gpus": torch.cuda.device_count(), "versions": versions(), "parts": {}, "left_out": {}}
    signal.signal(signal.SIGALRM, _stop)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(device, tiny, seconds, Path(folder))
        for name, (needs, run) in plan(bench).items():
            if bench.left < needs:
                record["left_out"][name] = f"{bench.left:.0f} s were left; it needs {needs:.0f}"
                continue
            began = time.perf_counter()
            signal.alarm(max(1, int(bench.left + _GRACE)))
            try:
                found = run()
            except Exception as error:  # the other parts are worth having
                record["left_out"][name] = _write_failure(error)
            else:
                record["parts"][name] = {**found, "seconds": round(time.perf_counter() - began, 2)}
            signal.alarm(0)
            if device == "cuda":
                torch.cuda.empty_cache()
            print(name, record["parts"].get(name) or record["left_out"][name], file=sys.stderr, flush=True)
        record["seconds"] = round(time.perf_counter() - bench.began, 2)
    return record


def _stop(_number: int, _frame: object) -> None:
    raise TimeoutError("the time of the whole run is over")


def _write_failure(error: Exception) -> str:
    return f"failed: {type(error).__name__}: {str(error)[:300]}"


#: Configurations of models, and what their tokenizers are made of.
MODELS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def make_dual(architecture: str, device: str, dtype: str) -> tuple[TorchDual, Any]:
    """Make a dual encoder of open_clip with its module; one architecture has the same weights everywhere."""
    torch = import_torch()
    import open_clip

    open_clip.factory._MODEL_CONFIGS |= MODELS["duals"]  # of this process: open_clip makes models by name
    torch.manual_seed(0)
    module = open_clip.create_model(architecture, pretrained=None, pretrained_image=False).eval()
    config = open_clip.get_model_config(architecture)
    facts = open_clip.transform.PreprocessCfg(**module.visual.preprocess_cfg)
    transform = open_clip.transform.image_transform_v2(facts, is_train=False)
    words = open_clip.SimpleTokenizer(context_length=config["text_cfg"]["context_length"])
    if config["text_cfg"].get("vocab_size", 49408) < len(words.encoder):
        ids, size = words.__call__, config["text_cfg"]["vocab_size"]

        class Folded(open_clip.SimpleTokenizer):  # type: ignore[misc]
            """Its ids within a smaller vocabulary."""

            def __call__(self, *arguments: Any, **options: Any) -> Any:
                return ids(*arguments, **options) % size

        words = Folded(context_length=words.context_length)
    where = runtime(ModelOptions(device=device, dtype=dtype))
    dual = make_openclip(architecture, Parts(module, transform, words), where, config)
    module.to(where.device, where.torch_dtype)
    return dual, module


def make_itm(device: str, dtype: str, *, tiny: bool) -> tuple[FusionScorer, Any]:
    """Make a BLIP with its matching head; return it with its module."""
    torch, transformers, sizes = import_torch(), import_transformers(), MODELS["itms"]["tiny" if tiny else "blip"]
    marks = {"bos_token_id": 2, "sep_token_id": 3, "pad_token_id": 0, "max_position_embeddings": 512}
    config = transformers.BlipConfig(text_config=sizes["text"] | marks, vision_config=sizes["vision"])
    torch.manual_seed(0)
    where = runtime(ModelOptions(device=device, dtype=dtype))
    module = transformers.BlipForImageTextRetrieval(config).eval().to(where.device, where.torch_dtype)
    words = [*MODELS["bert_marks"], *MODELS["words"].split(), *(f"[unused{k}]" for k in range(30495))]
    vocabulary = {word: k for k, word in enumerate(words[: config.text_config.vocab_size])}
    tokenizer = transformers.BertTokenizer(vocab=vocabulary, model_max_length=512)
    side = config.vision_config.image_size
    processor = transformers.BlipProcessor(
        transformers.BlipImageProcessorPil(size={"height": side, "width": side}), tokenizer
    )
    halves = Blip(module)
    prepare = prepare_pixels("blip-itm", BLIP, halves, processor)
    return FusionScorer(TorchFusionEncoder("blip-itm", halves, prepare, where)), module


def make_writer(name: str, device: str, dtype: str) -> tuple[CaptionLikelihood, Any, Any]:
    """Make a writer of Qwen2.5-VL's shape; return its likelihood reading, its module and its processor."""
    from tokenizers import ByteLevelBPETokenizer

    torch, transformers, sizes = import_torch(), import_transformers(), MODELS["writers"][name]
    text = sizes["text"] | {"max_position_embeddings": 4096, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
    vision = sizes["vision"] | {"spatial_merge_size": 2}
    marks = {"image_token_id": 5, "video_token_id": 6, "vision_start_token_id": 3, "vision_end_token_id": 4}
    config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **marks)
    where = runtime(ModelOptions(device=device, dtype=dtype))
    torch.manual_seed(0)
    with torch.device(device):
        module = transformers.Qwen2_5_VLForConditionalGeneration._from_config(config, dtype=where.torch_dtype).eval()
    cuts = {"patch_size": vision["patch_size"], "merge_size": 2, "temporal_patch_size": 2}
    images = transformers.Qwen2VLImageProcessor(**cuts, **sizes["pixels"])
    bpe, tokens = ByteLevelBPETokenizer(), MODELS["marks"]
    pad, start, end, *rest = tokens
    bpe.train_from_iterator([MODELS["words"]] * 3, 340, min_frequency=0, special_tokens=tokens, show_progress=False)
    special = {"pad_token": pad, "eos_token": end, "additional_special_tokens": [start, *rest]}
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer, **special)
    videos = transformers.Qwen2VLVideoProcessor(**cuts)
    processor = transformers.Qwen2_5_VLProcessor(images, words, videos, chat_template=MODELS["chat"])
    return CaptionLikelihood(ChatModel(name, module, processor, where), "likelihood", dtype), module, processor


if __name__ == "__main__":
    run_bench(measure)
