"""Make one folder of transformers' CLIP out of two towers that were saved apart, as TripletCLIP's are.

    python examples/convert/two_towers.py TEXT_FOLDER IMAGE_FOLDER PROCESSOR_FOLDER OUTPUT_FOLDER
    tellapart run -m hf:OUTPUT_FOLDER -b sugarcrepe

The first two are folders of `CLIPTextModelWithProjection` and `CLIPVisionModelWithProjection`; the third has the
tokenizer and the image processor that both were trained with (`openai/clip-vit-base-patch32`, say). Nothing in the
files is run. It was run on tiny models with random numbers, never on the published files.
"""

from pathlib import Path

import typer

from tellapart.models.huggingface.files import import_transformers, load_processor, load_weights
from tellapart.models.torch.backend import Runtime

transformers = import_transformers()


def join(text: Path, image: Path, processor: Path, output: Path) -> Path:
    """Write a folder of `CLIPModel` with the weights of both towers; each must be there, and in its shape."""
    towers = {
        "text": load_weights("CLIPTextModelWithProjection", str(text), Runtime("cpu")),
        "image": load_weights("CLIPVisionModelWithProjection", str(image), Runtime("cpu")),
    }
    sizes = {side: tower.config.projection_dim for side, tower in towers.items()}
    if sizes["text"] != sizes["image"]:
        raise SystemExit(f"the towers do not meet in one space: {sizes['text']} and {sizes['image']} dimensions")
    config = transformers.CLIPConfig(
        text_config=towers["text"].config.to_dict(),
        vision_config=towers["image"].config.to_dict(),
        projection_dim=sizes["text"],
    )
    model = transformers.CLIPModel(config)
    weights = {name: tensor for tower in towers.values() for name, tensor in tower.state_dict().items()}
    # The temperature is in neither tower; a cosine does not depend on it.
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if missing != ["logit_scale"] or unexpected:
        raise SystemExit(f"the towers are not CLIP's: {missing[:3]} are missing, {unexpected[:3]} are too many")
    load_processor(str(processor)).save_pretrained(output)
    model.save_pretrained(output)
    return output


if __name__ == "__main__":
    typer.run(join)
