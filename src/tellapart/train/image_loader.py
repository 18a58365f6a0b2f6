"""Read and prepare a step's images in threads, while another step is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tellapart.models.protocols import Pixels
from tellapart.train.rows import TrainingRows
from tellapart.train.trainable import Inputs

__all__ = ["ImageLoader"]


class ImageLoader:
    """Reads and prepares the images of rows.

    Args:
        rows: of training.
        prepare: the model's own preprocessing of one image, uint8 `(height, width, 3)`.
        keep: keep prepared images in memory, for sets that fit.
        threads: that read.
    """

    def __init__(self, rows: TrainingRows, prepare: Callable[[Pixels], Inputs], *, keep: bool, threads: int) -> None:
        self._rows, self._prepare, self._keep = rows, prepare, keep
        self._prepared: dict[int, Inputs] = {}
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="images")

    def read(self, numbers: Sequence[int]) -> list[Future[Inputs]]:
        """Begin to read and prepare the images of rows, by number."""
        return [self._pool.submit(self._image, number) for number in numbers]

    def _image(self, number: int) -> Inputs:
        if number in self._prepared:
            return self._prepared[number]
        prepared = self._prepare(self._rows.pixels(number))
        if self._keep:
            self._prepared[number] = prepared
        return prepared

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)
