"""Generated pictures as files: their size and format."""

from __future__ import annotations

import io
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tellapart.models.protocols import Pixels


class PictureFile(BaseModel):
    """The table `[options.picture]` of a recipe.

    Attributes:
        side: in pixels, resized from the size that was drawn; 0 leaves it (BiVLC: 512).
        format: `png` keeps every pixel; `jpeg` is the format of most natural pictures.
        quality: of a JPEG.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    side: int = Field(default=0, ge=0, le=4096)
    format: Literal["png", "jpeg"] = "png"
    quality: int = Field(default=95, ge=1, le=100)

    @property
    def suffix(self) -> str:
        """The ending of the file's name."""
        return ".png" if self.format == "png" else ".jpg"

    def encode(self, pixels: Pixels) -> bytes:
        """Return a picture's file, of pixels uint8 `(height, width, 3)`."""
        from PIL import Image

        image = Image.fromarray(pixels)
        if self.side and image.size != (self.side, self.side):
            image = image.resize((self.side, self.side), Image.Resampling.LANCZOS)
        stream = io.BytesIO()
        image.save(stream, "PNG" if self.format == "png" else "JPEG", quality=self.quality)
        return stream.getvalue()
