"""Real diffusers pipelines of random weights, saved as folders; they draw a picture in a tenth of a second."""

from pathlib import Path

from tellapart.models.torch.backend import import_torch

LENGTH = 24


def _tokenizer(transformers):
    """CLIP's byte-level BPE with a few words of its own; the end of the text is the last token of all."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    vocabulary = {token: k for k, token in enumerate([*letters, *(f"{letter}</w>" for letter in letters)])}
    merges = [("c", "a"), ("ca", "t</w>"), ("d", "o"), ("do", "g</w>"), ("o", "n</w>"), ("a", "n</w>")]
    for merge in merges:
        vocabulary.setdefault("".join(merge), len(vocabulary))
    for token in ("<|startoftext|>", "<|endoftext|>"):
        vocabulary[token] = len(vocabulary)
    return transformers.CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=LENGTH)


def _text_encoder(transformers, tokenizer, width: int, *, projected: bool):
    marks = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    config = transformers.CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=LENGTH, projection_dim=width, **marks,
    )  # fmt: skip
    kind = transformers.CLIPTextModelWithProjection if projected else transformers.CLIPTextModel
    return kind(config).eval()


def _autoencoder(diffusers):
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    sizes = {"block_out_channels": (8, 16), "latent_channels": 4, "norm_num_groups": 4, "sample_size": 32}
    return diffusers.AutoencoderKL(**blocks, **sizes).eval()


def _denoiser(diffusers, width: int, **more):
    """A denoiser whose attention weighs enough that sharing its maps moves pixels: random weights alone hardly do."""
    torch = import_torch()
    sizes = {"sample_size": 16, "block_out_channels": (8, 16), "layers_per_block": 1, "cross_attention_dim": width}
    sizes |= {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "attention_head_dim": 2}
    sizes |= {"up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "norm_num_groups": 4}
    unet = diffusers.UNet2DConditionModel(**sizes, **more).eval()
    with torch.no_grad():
        for name, weights in unet.named_parameters():
            if any(part in name for part in (".to_q.", ".to_k.", ".to_v.", ".to_out.")):
                weights.mul_(4)
    return unet


def save(folder: Path, *, xl: bool = False) -> None:
    """Write a `StableDiffusionPipeline`, or one of XL, of 32 pixels a side."""
    torch = import_torch()
    import diffusers
    import transformers

    torch.manual_seed(0)
    tokenizer = _tokenizer(transformers)
    parts = {
        "vae": _autoencoder(diffusers),
        "text_encoder": _text_encoder(transformers, tokenizer, 16, projected=False),
        "tokenizer": tokenizer,
    }
    noise = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
    if xl:
        sizes = {"addition_time_embed_dim": 4, "projection_class_embeddings_input_dim": 16 + 6 * 4}
        more = {"addition_embed_type": "text_time", "transformer_layers_per_block": 1}
        pipeline = diffusers.StableDiffusionXLPipeline(
            **parts,
            text_encoder_2=_text_encoder(transformers, tokenizer, 16, projected=True),
            tokenizer_2=tokenizer,
            unet=_denoiser(diffusers, 32, **sizes, **more),
            scheduler=diffusers.EulerDiscreteScheduler(**noise),
            add_watermarker=False,
        )
    else:
        pipeline = diffusers.StableDiffusionPipeline(
            **parts,
            unet=_denoiser(diffusers, 16),
            scheduler=diffusers.DDIMScheduler(**noise, clip_sample=False),
            **dict.fromkeys(("safety_checker", "feature_extractor")),
            requires_safety_checker=False,
        )
    pipeline.save_pretrained(folder)
