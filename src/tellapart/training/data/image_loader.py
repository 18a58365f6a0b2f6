"""Read and prepare a step's images in threads, while another step is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tellapart.models.protocols import Pixels
from tellapart.training.data.joined_rows import JoinedRows, join_pictures
from tellapart.training.data.rows import TrainingRows
from tellapart.training.encoders.trainable import Inputs

#: Changes a picture, by the step's number and the row's.
Augment = Callable[[Pixels, int, int], Pixels]


class ImageLoader:
    """Reads and prepares the images of rows."""

    def __init__(
        self,
        rows: TrainingRows,
        prepare: Callable[[Pixels], Inputs],
        *,
        keep: bool,
        threads: int,
        side: int,
        augment: Augment | None = None,
    ) -> None:
        self._rows, self._prepare, self._keep, self._augment = rows, prepare, keep, augment
        self._side = side
        self._prepared: dict[int, Inputs] = {}  # by the image's number: several rows show one image
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="images")

    def read(self, numbers: Sequence[int], step: int, joined: Sequence[JoinedRows] = ()) -> list[Future[Inputs]]:
        """Begin to read and prepare the images of rows, by number, for a step; each joined to another's, if to any."""
        if joined:
            return [
                self._pool.submit(self._read_joined, number, other, step)
                for number, other in zip(numbers, joined, strict=True)
            ]
        return [self._pool.submit(self._read_image, number, step) for number in numbers]

    def _read_image(self, number: int, step: int) -> Inputs:
        image = int(self._rows.image_ids[number])
        if image in self._prepared:
            return self._prepared[image]
        pixels = self._rows.pixels(number)
        prepared = self._prepare(pixels if self._augment is None else self._augment(pixels, step, number))
        if self._keep:
            self._prepared[image] = prepared
        return prepared

    def _read_joined(self, number: int, other: JoinedRows, step: int) -> Inputs:
        first, second = (other.second, number) if other.swapped else (number, other.second)
        pixels = join_pictures(self._rows.pixels(first), self._rows.pixels(second), self._side)
        return self._prepare(pixels if self._augment is None else self._augment(pixels, step, number))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)
