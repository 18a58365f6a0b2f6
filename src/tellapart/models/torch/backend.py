"""Devices, dtypes, fingerprints and forward passes of torch models, and batches of fixed shape."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tellapart.errors import MissingDependencyError, ModelError, TellapartWarning, first_sentence, import_torch, require
from tellapart.models.options import DEVICES, ModelOptions
from tellapart.models.torch.network import Network, Tensor

if TYPE_CHECKING:
    import torch


__all__ = [
    "Runtime", "bucket", "exact_batches", "exact_size", "fastest_dtype", "fixed_batches", "forward", "guard_torch_load",
    "import_torch", "inference", "move", "parameter_count", "pass_size", "positions_by_key", "refuse_unsafe_pickle",
    "run_grouped", "runtime", "weights_fingerprint",
]  # fmt: skip

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)

#: The first torch that closes both known ways around `weights_only`: CVE-2025-32434 (2.6), CVE-2026-24747 (2.10).
_SAFE_TORCH = "2.10"

#: Instructions of processors that multiply numbers of a dtype, as `torch.cpu.get_capabilities` names them.
_INSTRUCTIONS = {
    "bfloat16": ("amx_bf16", "avx512_bf16", "bf16", "sve_bf16"),
    "float16": ("amx_fp16", "avx512_fp16", "fp16_arith"),
}

#: The size that `exact_batches` sets inside its block; None outside.
_exact: ContextVar[int | None] = ContextVar("exact", default=None)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The device and the dtype that a torch model computes in; scores and vectors are float32 in any case."""

    device: str
    dtype: str = "float32"

    @property
    def torch_dtype(self) -> torch.dtype:
        """The `torch.dtype` of that name."""
        return getattr(import_torch(), self.dtype)


def runtime(options: ModelOptions) -> Runtime:
    """Return the device and dtype of some options; refuse a device that is not there, warn of an imitated dtype."""
    torch = import_torch()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            f"device 'cuda' is not available: torch {torch.__version__} sees no GPU; use device 'cpu', or install a "
            "torch built for this machine's CUDA"
        )
    if options.device == "mps" and not torch.backends.mps.is_available():
        raise ModelError(
            f"device 'mps' is not available: torch {torch.__version__} sees no Apple GPU; use device 'cpu'"
        )
    if options.device == "cuda" and options.dtype == "float32":
        # By default cuDNN rounds a convolution's float32 to ten bits (TF32), which would change every patch embedding.
        torch.backends.cudnn.allow_tf32 = False
    if options.device == "cpu" and not _has_instructions(options.dtype, unknown=True):
        warnings.warn(
            f"dtype={options.dtype!r}: this processor has no instructions for it and imitates them, in up to five "
            "times the time of float32; leave it out, or let a run take the fastest by dtype='auto'",
            TellapartWarning,
            stacklevel=2,
        )
    return Runtime(options.device, options.dtype)


def fastest_dtype(device: str) -> str:
    """Return the dtype that a device multiplies fastest by its instructions; float32 if it must imitate the others."""
    try:
        torch = import_torch()
    except MissingDependencyError:  # then no model computes with it
        return "float32"
    if device == "cuda" and torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"
    if device == "mps":
        return "float16"
    return "bfloat16" if _has_instructions("bfloat16", unknown=False) else "float32"


def _has_instructions(dtype: str, *, unknown: bool) -> bool:
    """Return whether the processor multiplies numbers of a dtype by its instructions; `unknown` if torch cannot say."""
    facts: dict[str, object] = getattr(import_torch().cpu, "get_capabilities", dict)()
    if dtype not in _INSTRUCTIONS:
        return True
    return any(facts.get(name) for name in _INSTRUCTIONS[dtype]) if facts else unknown


def move(tensor: Tensor, place: Runtime) -> Tensor:
    """Return a tensor on the model's device; floating-point numbers are also converted to the model's dtype.

    A copy from the CPU to a GPU runs from pinned memory in the background, while the next batch is prepared.
    """
    dtype = place.torch_dtype if tensor.is_floating_point() else tensor.dtype
    if place.device != "cuda" or tensor.device.type != "cpu":
        return tensor.to(place.device, dtype)
    return tensor.to(dtype).pin_memory().to(place.device, non_blocking=True)


def fixed_batches(samples: Sequence[T], size: int) -> Iterator[tuple[list[T], int]]:
    """Yield batches of exactly `size`, the last one filled up by its last sample, and how many samples are real.

    A matrix product sums in an order that depends on the shapes it is given, so a sample's last bits differ
    between a batch of 7 and one of 8. Here every forward has the same shape. So, on one device with a fixed number of
    threads, a sample's numbers do not depend on how many samples there are, on their order or on its neighbours. The
    size belongs to the model, not to the call.

    >>> list(fixed_batches("abcde", 3))
    [(['a', 'b', 'c'], 3), (['d', 'e', 'e'], 2)]
    """
    if size < 1:
        raise ValueError(f"size must be at least 1; got {size}")
    exact = _exact.get()
    step = exact or size
    for start in range(0, len(samples), step):
        batch = list(samples[start : start + step])
        real = len(batch)
        yield batch if exact else batch + batch[-1:] * (size - real), real


@contextmanager
def exact_batches(size: int) -> Iterator[None]:
    """Make `fixed_batches`, inside this block, cut batches of at most `size` and leave the last one short.

    For measurements of time, without the cost of filled-up batches. Numbers may differ in their last bits from those of
    fixed shapes, and must not be stored.
    """
    token = _exact.set(size)
    try:
        yield
    finally:
        _exact.reset(token)


def exact_size() -> int | None:
    """Return the size that `exact_batches` sets; None outside of its block."""
    return _exact.get()


def parameter_count(model: Network) -> int:
    """Return the number of parameters of a `torch.nn.Module`; one that several layers share counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def refuse_unsafe_pickle(source: object) -> None:
    """Refuse weights in a pickle if torch's guard against code in it (`weights_only`) has known holes."""
    installed = str(import_torch().__version__)
    version = require("packaging.version", extra="models")
    try:
        safe = version.Version(installed) >= version.Version(_SAFE_TORCH)
    except version.InvalidVersion:
        safe = False
    if not safe:
        raise ModelError(
            f"{source}: its weights are a pickle, which in torch {installed} can run code even if only tensors are "
            f"asked for (CVE-2025-32434, CVE-2026-24747); install torch {_SAFE_TORCH} or later, or name weights "
            "in .safetensors"
        )


@contextmanager
def guard_torch_load(source: object) -> Iterator[None]:
    """Call `refuse_unsafe_pickle` before every `torch.load` inside this block, also those of libraries.

    Names of files are not enough: an index of safetensors may list a pickle as a shard, and an adapter may be one.
    """
    torch = import_torch()
    load = torch.load

    def guarded(*arguments: Any, **options: Any) -> Any:
        refuse_unsafe_pickle(source)
        return load(*arguments, **options)

    torch.load = guarded  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.load = load  # type: ignore[attr-defined]


def weights_fingerprint(model: Network, *extra: str) -> str:
    """Return the SHA-256 of a model's weights and of `extra`, the other facts that its numbers depend on.

    Of every tensor of the state dict name, type, shape and bytes count; the files' paths do not.
    """
    torch = import_torch()
    digest = hashlib.sha256()
    for fact in extra:
        digest.update(f"{len(fact.encode())}:".encode() + fact.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # As bytes, because numpy has no bfloat16.
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()


def bucket(length: int, limit: int | None = None, *, step: int = 8) -> int:
    """Round a length up to a multiple of `step`, at most to `limit`, so that few different shapes occur."""
    up = -(-length // step) * step
    return up if limit is None else min(up, limit)


def positions_by_key(keys: Iterable[Key]) -> dict[Key, list[int]]:
    """Return the positions of each key, keys in the order of their first position, to batch samples of one shape."""
    positions: dict[Key, list[int]] = {}
    for position, key in enumerate(keys):
        positions.setdefault(key, []).append(position)
    return positions


def pass_size(device: str, on_cpu: int = 16, elsewhere: int = 64) -> int:
    """Return how many samples one forward pass takes: on a CPU more gain nothing, elsewhere fewer leave it idle.

    ViT-B/32 on one core takes 97 ms an image in batches of 4, 93 ms in 16 and in 32.
    """
    return on_cpu if device == "cpu" else elsewhere


def run_grouped(
    samples: Sequence[T],
    key: Callable[[T], Hashable],
    size: int,
    compute: Callable[[list[T]], Iterable[Any]],
    whole: Callable[[list[T]], Iterable[Any] | None] = lambda _: None,
) -> list[Any]:
    """Return what `compute` gives for each sample; samples of one key meet in batches of `size`.

    `whole` is given all samples of a key first, and may compute them in another way.
    """
    rows: dict[int, Any] = {}
    for positions in positions_by_key(map(key, samples)).values():
        if (together := whole([samples[position] for position in positions])) is not None:
            rows |= zip(positions, together, strict=True)
            continue
        for batch, real in fixed_batches(positions, size):
            rows |= zip(batch[:real], compute([samples[position] for position in batch]), strict=False)
    return [rows[position] for position in range(len(samples))]


@contextmanager
def forward(name: str, model: Network) -> Iterator[None]:
    """Compute without gradients, and raise a library's errors as one line; `OutOfMemoryError` passes unchanged."""
    torch = import_torch()
    try:
        with inference():
            yield
    except torch.cuda.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise ModelError(f"{name}: {type(model).__name__} fails: {first_sentence(error)}") from error


@contextmanager
def inference(gradients: bool = False) -> Iterator[None]:
    """Compute in the dtype of the weights, under a caller's `torch.autocast`, too; without gradients if not asked."""
    torch = import_torch()
    with nullcontext() if gradients else torch.inference_mode(), ExitStack() as stack:
        for device in filter(torch.is_autocast_enabled, DEVICES):
            stack.enter_context(torch.autocast(device, enabled=False))
        yield
