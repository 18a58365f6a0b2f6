"""The headline metrics of tasks, by names alone, so that no task is imported for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

HEADLINES: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "pairs": (
            ("text_score", "image_score", "group_score", "match_score"),
            ("text_score", "image_score", "group_score"),  # of other tools
            ("pairwise", "acc", "min_pc_pf"),
            ("choice_score",),
            ("itt",),
            ("individual_score", "pair_score", "set_score", "match_score"),
            ("individual_score", "set_score", "match_score"),
            ("individual_score", "pair_score", "set_score"),
            ("individual_score", "set_score"),
        ),
        "distinct-retrieval": (
            tuple(f"{side}_distinct_recall@{depth}" for side in ("i2t", "t2i") for depth in (1, 5, 10)),
        ),
        "retrieval": (tuple(f"{side}_recall@{depth}" for side in ("i2t", "t2i") for depth in (1, 5, 10)),),
        "choice": (("both_orders", "mean_of_orders", "order_bias"), ("both_orders", "order_bias")),
        "pairing": (("group_score_both_orders", "pairing_bias"),),
        "ranking": (("kendall", "spearman"),),
        "nlvr2": (("accuracy", "consistency"),),
        "vqa": (("exact_match", "pair_accuracy"),),
        "vqa2": (("soft_accuracy",),),
        "yes-no": (("g_acc", "q_acc", "i_acc", "a_acc"), ("g_acc", "a_acc"), ("a_acc",)),
        "true-texts": (("tot", "tot_one_sided"),),
        "ordered-texts": (("ordering_score",),),
        "grounding": (("box_accuracy",),),
        "captions": (("bleu_4", "rouge_l", "cider"),),
        "moments": (
            ("boundary_accuracy", "boundary_f1", "boundary_accuracy_unmerged", "boundary_f1_unmerged"),
            ("boundary_accuracy", "boundary_f1"),
        ),
        "classification": (("top1_accuracy",),),
        "labels": (("label_ap",),),
        "preference": (("preference_accuracy", "preference_group"), ("preference_accuracy",)),
        "open": (
            ("answer_match", "bias_rate"),
            ("answer_match", "group_match", "same_answer"),
            ("answer_match", "group_match"),
            ("answer_match",),
        ),
        "ratings": (("pairwise_accuracy", "kendall_tau_b", "spearman_rho"), ("roc_auc",)),
    }
)
"""Task -> its rows of headline metrics, as `Task.headlines` has them."""
