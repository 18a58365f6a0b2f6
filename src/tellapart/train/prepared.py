"""Images of a step, read and prepared by threads while another step is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tellapart.models.protocols import Pixels
from tellapart.train.encoders import Inputs
from tellapart.train.rows import Rows

__all__ = ["PreparedImages"]


class PreparedImages:
    """Prepares the images of rows.

    Args:
        rows: whose images are read.
        prepare: the model's own preprocessing of one image, uint8 `(height, width, 3)`.
        keep: keep what was prepared in memory, for sets that fit.
        threads: that read.

    >>> from pathlib import Path
    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> from tellapart.train.rows import Row
    >>> demo = find_benchmark("demo").pairs()
    >>> rows = Rows((Row(demo.root / demo.items[0].images[0], "a"),))
    >>> images = PreparedImages(rows, lambda pixels: {"shape": pixels.shape}, keep=False, threads=1)
    >>> images.read([0])[0].result()
    {'shape': (160, 160, 3)}
    >>> images.close()
    """

    def __init__(self, rows: Rows, prepare: Callable[[Pixels], Inputs], *, keep: bool, threads: int) -> None:
        self._rows, self._prepare, self._keep = rows, prepare, keep
        self._kept: dict[int, Inputs] = {}
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="images")

    def read(self, numbers: Sequence[int]) -> list[Future[Inputs]]:
        """Begin to read and prepare the images of rows, by number."""
        return [self._pool.submit(self._image, number) for number in numbers]

    def _image(self, number: int) -> Inputs:
        if number in self._kept:
            return self._kept[number]
        prepared = self._prepare(self._rows.pixels(number))
        if self._keep:
            self._kept[number] = prepared
        return prepared

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(cancel_futures=True)
