"""The papers' hyper-parameters, by name: a preset fills in what a configuration does not set.

Only what a paper or its code says is here. Where the two contradict each other, and what this loop does in another way,
is noted beside each; the model, the data and the device are the configuration's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["PRESETS", "merge_preset"]

#: EqSim on Flickr30K by FIBER's contrastive head (EqSim, appendix C; the released command and FIBER's configuration).
#: The paper chooses alpha from {0, 0.04, 0.1} and beta from {0.2, 0.5, 1}; the command takes 0.1 and 0.5, k is 8. All
#: else is FIBER's: AdamW, 1,024 pairs, 10 epochs, a tenth of them warm-up (141 steps of 29,000 images with five
#: captions), then a line to zero. Contradicted: the command trains on train and validation together and chooses on the
#: test split (here validation must be named); FIBER takes five times the rate for cross-modal layers, which a dual
#: encoder has not; the code draws 4 + 4 negatives and hinges the mean where the paper takes the top 8 and hinges each
#: (`as_released = true`).
_EQSIM_F30K: Mapping[str, Any] = {
    "loss": {"name": "eqsim", "alpha": 0.1, "beta": 0.5, "k": 8, "variant": "eqsim"},
    "optimiser": {
        "learning_rate": 2e-5,
        "betas": (0.9, 0.98),
        "epsilon": 1e-8,
        "weight_decay": 0.01,
        "warm_up": 141,
        "decay": "linear",
        "epochs": 10,
        "max_scale": None,
    },
    "batch": {"size": 1024},
}

#: NegCLIP (Yuksekonul et al. 2023, appendix; the authors' fork of open_clip): ViT-B/32 from OpenAI's weights, 256 pairs
#: and their 256 hard ones (a matrix of 512 x 1,024), 5 epochs, 50 steps of warm-up. The paper searches the rate in
#: {1e-5, 5e-6, 1e-6}; the published run's name says 1e-6. The weight decay is open_clip's default, 0.2: BiVLC, which
#: calls its settings NegCLIP's, says 0.1. The authors' code misplaces labels on several ranks; this one does not.
_NEGCLIP: Mapping[str, Any] = {
    "loss": {"name": "negclip"},
    "optimiser": {
        "learning_rate": 1e-6,
        "betas": (0.9, 0.98),
        "epsilon": 1e-6,
        "weight_decay": 0.2,
        "warm_up": 50,
        "epochs": 5,
        "max_scale": 100.0,
    },
    "batch": {"size": 256},
}

#: What BiVLC's two models share (Miranda et al. 2024, appendix, "Fine-tuning hyperparameters"). Contradicted: the
#: code's batch is 400 by default and its README does not change it, the paper says 200 and then the negatives; the code
#: chooses by in-batch accuracy, which depends on the batch (here by a validation set); it never clamps the scale.
_BIVLC: Mapping[str, Any] = {
    "seed": 42,
    "optimiser": {
        "learning_rate": 1e-6,
        "betas": (0.9, 0.98),
        "epsilon": 1e-6,
        "weight_decay": 0.1,
        "warm_up": 50,
        "epochs": 10,
        "max_scale": None,
    },
    "batch": {"size": 200},
}

#: TROHN-Text: 200 images by 400 captions, of which 200 are false; no hard images.
_TROHN_TEXT: Mapping[str, Any] = {
    **_BIVLC,
    "loss": {"name": "negclip"},
    "data": {"negative_captions": 1, "negative_images": "none"},
}

#: TROHN-Img: 200 pairs and their 200 counterparts, 400 by 400.
_TROHN_IMG: Mapping[str, Any] = {
    **_BIVLC,
    "loss": {"name": "trohn-img"},
    "data": {"negative_captions": 0, "negative_images": "mate"},
}

#: TripletCLIP (Patel et al. 2024; the released open_clip script and its defaults): ViT-B/32 from random weights,
#: each caption with a false one and its picture. Unknown: how it fine-tunes OpenAI's weights.
#: Contradicted: the script's 10 epochs are a sample, its default is 92. Its rate falls to zero on a cosine.
_TRIPLETCLIP: Mapping[str, Any] = {
    "seed": 42,
    "loss": {"name": "tripletclip"},
    "optimiser": {
        "learning_rate": 5e-4,
        "betas": (0.9, 0.999),
        "epsilon": 1e-8,
        "weight_decay": 0.5,
        "warm_up": 1000,
        "epochs": 10,
        "max_scale": 100.0,
    },
    "batch": {"size": 1024},
}

#: CE-CLIP (Zhang et al. 2024, the released command `run_all.sh`): ViT-B/32 from OpenAI's weights on COCO 2014, two GPUs
#: of 256 pairs, four false captions an image. The command tries both weights from 0.2 to 1 and a bound of 5 (the code's
#: default is 10); the released weights are those of epoch 5 of 10. Its threshold is that of the last step and of each
#: kind of false caption; this loss has no kinds.
_CE_CLIP: Mapping[str, Any] = {
    "seed": 42,
    "loss": {"name": "ce-clip", "intra": 0.2, "rank": 0.2, "bound": 5.0},
    "optimiser": {
        "learning_rate": 5e-6,
        "betas": (0.9, 0.98),
        "epsilon": 1e-6,
        "weight_decay": 0.1,
        "warm_up": 50,
        "epochs": 10,
        "max_scale": 100.0,
    },
    "batch": {"size": 512},
    "data": {"negative_captions": 4},
}

#: FSC-CLIP (Oh et al. 2024, the released command on COCO) without its local term, so its numbers are not to be had by
#: this: ViT-B/32 from OpenAI's weights, NegCLIP's 100,000 captions, three false captions an image (by NegCLIP's rule,
#: by replacement and by shuffled bigrams). With LoRA of rank 4 its rate is 5e-5, on CC3M its weight 1.
_FSC_GLOBAL: Mapping[str, Any] = {
    "loss": {"name": "fsc-global", "weight": 0.5, "gamma": 2.0, "smoothing": 0.02},
    "optimiser": {
        "learning_rate": 5e-6,
        "betas": (0.9, 0.98),
        "epsilon": 1e-6,
        "weight_decay": 0.1,
        "warm_up": 50,
        "epochs": 5,
        "max_scale": 100.0,
    },
    "batch": {"size": 256},
    "data": {"negative_captions": 3},
}

#: CS-CLIP (Kargi et al. 2026; what its paper says, and its configurations for the rest): ViT-B/32 from OpenAI's weights
#: on 410,000 captions of COCO with units and foils of a language model, eight GPUs of 128 pairs, 25 epochs. Its first 3
#: epochs are the warm-up (1,200 steps), from a tenth of the rate, and it ends at a hundredth; here both are 0.
#: Unknown: which of its code's five forms of the unit loss made the released weights (here the default). Contradicted:
#: its configuration for COCO has 5 epochs. It takes all units of a caption in a step, here one is drawn.
_CS_CLIP: Mapping[str, Any] = {
    "seed": 42,
    "loss": {"name": "cs-clip", "weight": 0.5},
    "optimiser": {
        "learning_rate": 5e-6,
        "betas": (0.9, 0.98),
        "epsilon": 1e-6,
        "weight_decay": 0.01,
        "warm_up": 1200,
        "epochs": 25,
        "clip_norm": 1.0,
        "max_scale": 100.0,
    },
    "batch": {"size": 1024},
}

#: NegBench (Alhamoud et al. 2025): CLIP from OpenAI's weights on CC12M-NegCap and CC12M-NegMCQ. Only the rate and the
#: two weights are published; epochs and the batch's size are the configuration's own to say.
_NEGBENCH: Mapping[str, Any] = {
    "loss": {"name": "negbench", "contrast": 0.99, "choice": 0.01},
    "optimiser": {"learning_rate": 1e-8},
    "data": {"negative_captions": 3},
}


def _coco_cf(take: list[float]) -> Mapping[str, Any]:
    """COCO-Counterfactuals (Le et al. 2023, appendix B.4): what is taken of MS-COCO's rows and of the counterfactuals'.

    ViT-B/32 as transformers has it, 128 pairs, rate 5e-7, weight decay 0.001, 80 % trained on and 20 % to choose by;
    seeds 107 to 131 (`--seeds 25`). The appendix says nothing of epochs; the released command has 30. The rest are the
    defaults of transformers' Trainer: a line to zero without warm-up, betas 0.9 and 0.999, gradients of norm 1 at most.
    Contradicted: the released split is by row and tears 3,917 pairs apart; here no picture of COCO is on both sides.
    The paper chooses by the validation loss, this loop by the counterfactual items that are left out.
    """
    return {
        "seed": 107,
        "data": {"take": take, "share": 0.8},
        "loss": {"name": "itc"},
        "optimiser": {
            "learning_rate": 5e-7,
            "betas": (0.9, 0.999),
            "epsilon": 1e-8,
            "weight_decay": 0.001,
            "decay": "linear",
            "epochs": 30,
            "clip_norm": 1.0,
            "max_scale": None,
        },
        "batch": {"size": 128},
    }


#: Name -> tables of a configuration. The `coco-cf` presets take two sources: MS-COCO's rows, then the counterfactuals'.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "eqsim-f30k": _EQSIM_F30K,
        "negclip": _NEGCLIP,
        "trohn-text": _TROHN_TEXT,
        "trohn-img": _TROHN_IMG,
        "tripletclip": _TRIPLETCLIP,
        "ce-clip": _CE_CLIP,
        "cs-clip": _CS_CLIP,
        "fsc-global": _FSC_GLOBAL,
        "negbench": _NEGBENCH,
        "coco-cf-base": _coco_cf([0.5, 0.25]),
        "coco-cf-medium": _coco_cf([1.0, 0.75]),
        "coco-cf-all": _coco_cf([1.0, 1.0]),
    }
)


def merge_preset(preset: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` completed by the preset's, table by table.

    A loss of another name takes none of the preset's options, and steps take the place of epochs.

    >>> merge_preset({"batch": {"size": 8, "chunk": 2}, "seed": 1}, {"batch": {"size": 4}})
    {'batch': {'size': 4, 'chunk': 2}, 'seed': 1}
    >>> merge_preset({"optimiser": {"epochs": 5, "learning_rate": 1.0}}, {"optimiser": {"steps": 9}})
    {'optimiser': {'learning_rate': 1.0, 'steps': 9}}
    """
    merged: dict[str, Any] = dict(preset)
    for key, value in values.items():
        base = merged.get(key)
        if not isinstance(value, Mapping) or not isinstance(base, Mapping):
            merged[key] = value
            continue
        if key == "loss" and value.get("name", base.get("name")) != base.get("name"):
            base = {}
        if key == "optimiser" and {"steps", "epochs"} & set(value):
            base = {name: number for name, number in base.items() if name not in {"steps", "epochs"}}
        merged[key] = {**base, **value}
    return merged
