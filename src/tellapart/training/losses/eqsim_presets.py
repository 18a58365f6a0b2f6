"""The presets of EqSim's losses, for three kinds of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tellapart.training.losses.preset import Preset

#: FIBER's and METER's optimiser. A tenth of the steps is warm-up (of 29,000 images with five captions), then a line to
#: zero.
_OPTIMISER: Mapping[str, Any] = {
    "betas": (0.9, 0.98),
    "epsilon": 1e-8,
    "weight_decay": 0.01,
    "decay": "linear",
    "epochs": 10,
    "max_scale": None,
}

_DECAYED = "the code decays LayerNorms of CLIP's tower, gates and the scale; here nothing of one axis or none"
_SPLIT = "the command trains on train and validation together and chooses on the test split; here you name a set"

#: By FIBER's contrastive head. The paper chooses alpha from {0, 0.04, 0.1} and beta from {0.2, 0.5, 1}; the command
#: takes 0.1 and 0.5, k is 8. **1,024 is 16 steps of 64 pairs (8 on each of 8 GPUs), whose gradients are added up:
#: every matrix of similarities is 64 x 64**, so a pair has 63 negatives, and the 8 close ones are of 63.
EQSIM_F30K = Preset(
    {
        "loss": {"name": "eqsim", "alpha": 0.1, "beta": 0.5, "k": 8, "variant": "eqsim"},
        "optimiser": {**_OPTIMISER, "learning_rate": 2e-5, "warm_up": 141},
        "batch": {"size": 1024, "accumulate": 16},
    },
    source="EqSim, appendix C, the released command; FIBER's fine-tuning",
    ours={
        "validation": _SPLIT,
        "optimiser.groups": "FIBER takes five times the rate for cross-modal layers, which a dual encoder has not",
        "loss.as_released": "the code draws 4 + 4 negatives and hinges their mean; the paper takes the top 8 and "
        "hinges each, which is the default here",
        "decay of weights": _DECAYED,
    },
)

#: Outputs that lose a tenth in both models' text layers (`drop_rate`, and RoBERTa's dropout).
_DROPOUT: Mapping[str, float] = {"*.output.dense": 0.1, "*text_transformer.embeddings": 0.1}
_NO_DROPOUT = "the authors also drop a tenth of attention's weights"

#: As released (`task_finetune_irtr_itm_f30k_hardneg` of its fork): matching with one hard text and one hard image,
#: contrast without a queue, and EqSim on the softmax of the contrastive matrix over texts, 4 + 4 negatives drawn,
#: weight 0.5, margin 0.1 on the mean. Rate 2e-5, five times that for cross-modal layers and the matching head;
#: pictures of 288 pixels, cropped from half of the area on, flipped and changed (RandomAugment 2, 7). A flip makes
#: "left" false; `tellapart train` warns of it. Not known: seeds, the number of runs, the rate of paths that Swin
#: drops, and which start ("FIBER pre-trained") was taken for the published numbers.
EQSIM_FIBER_F30K = Preset(
    {
        "reading": "itm",
        "image_size": 288,
        "dropout": _DROPOUT,
        "data": {"augment": "fiber"},
        "loss": {"name": "itm", "also": {"eqsim": {"alpha": 0.1, "beta": 0.5, "k": 8, "as_released": True}}},
        "optimiser": {
            **_OPTIMISER,
            "learning_rate": 2e-5,
            "warm_up": 141,
            "groups": {"*cross_modal*": 5.0, "*i2t*": 5.0, "*t2i*": 5.0, "*itm_score*": 5.0},
        },
        "batch": {"size": 1024, "accumulate": 16},
        "matching": {"negatives": 1, "source": "batch"},
    },
    source="the released command of EqSim; for `fiber:FILE`",
    ours={
        "validation": _SPLIT,
        "matching": "the code takes the first of EqSim's four negatives; here matching draws other hard pairs",
        "one image": "the code counts two captions of one image as negatives of each other; here they are not",
        "several ranks": "each rank masks its rows only; here all ranks compute one process's numbers",
        "dropout": _NO_DROPOUT,
        "decay of weights": _DECAYED,
    },
)

#: METER's fine-tuning (`task_finetune_irtr_f30k` of its code): EqSim's code for it is not released. Ranking among
#: 15 captions and their images, 8 of them close, mined beforehand: `tellapart mine ROWS -m DUAL_ENCODER --scorer
#: meter:FILE --reading itm` writes such rows (128 nearest images). Matching is trained with it, with a weight of 1:
#: the configuration has 0.5, which the code reads as "on" (in another version of it, as "off"); its head is frozen.
#: Rate 5e-6, five times that for cross-modal layers (not for the ranking head, which its list of heads lacks);
#: pictures of 288 pixels, as in EqSim (METER's are 384), RandAugment(2, 9). Not known: alpha, beta (each chosen
#: from three), seeds.
EQSIM_METER_F30K = Preset(
    {
        "reading": "rank",
        "image_size": 288,
        "dropout": _DROPOUT,
        "data": {"augment": "meter"},
        "loss": {"name": "eqsim-ranking", "alpha": 0.1, "beta": 0.5, "k": 8, "also": {"itm": {"reading": "itm"}}},
        "optimiser": {
            **_OPTIMISER,
            "learning_rate": 5e-6,
            "warm_up": 283,
            "groups": {"*cross_modal*": 5.0, "*itm_score*": 0.0},
        },
        "batch": {"size": 512, "accumulate": 8},
        "matching": {"negatives": 15, "source": "rows", "close": 8},
    },
    source="EqSim, appendix C, and METER's fine-tuning (EqSim's code for METER is not released); for `meter:FILE`",
    ours={
        "mining": "the paper takes METER's vision tower for near images, which is not a dual encoder",
        "matching": "METER draws other pairs for matching, half of them false; here the mined ones serve both",
        "batch.accumulate": "the pairs of a step are not published; mined pairs make no matrix, so nothing changes",
        "dropout": _NO_DROPOUT,
        "decay of weights": _DECAYED,
    },
)
