"""Arrays of scores in, one value per item out; and a class for each metric that takes scores batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "PC",
    "PF",
    "V1",
    "Acc",
    "ChoiceScore",
    "GroupScore",
    "I2t",
    "ImageScore",
    "IndividualScore",
    "Ineg2t",
    "Ipos2t",
    "Itt",
    "MatchScore",
    "MatchScoreOfProbabilities",
    "MinPcPf",
    "PairScore",
    "Pairwise",
    "SetScore",
    "StreamingMetric",
    "T2i",
    "TextScore",
    "Tneg2i",
    "Tpos2i",
    "V2Image",
    "V2Text",
]

if TYPE_CHECKING:
    from tellapart.metrics.streaming import (
        PC,
        PF,
        V1,
        Acc,
        ChoiceScore,
        GroupScore,
        I2t,
        ImageScore,
        IndividualScore,
        Ineg2t,
        Ipos2t,
        Itt,
        MatchScore,
        MatchScoreOfProbabilities,
        MinPcPf,
        PairScore,
        Pairwise,
        SetScore,
        StreamingMetric,
        T2i,
        TextScore,
        Tneg2i,
        Tpos2i,
        V2Image,
        V2Text,
    )
else:  # hidden from type checkers, for which it would make any name one of Any

    def __getattr__(name: str) -> type:
        """Return the class of a metric, those of plugins too."""
        if not name[:1].isupper():  # a module of the room that is not imported yet, as the import of it asks
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tellapart.metrics import streaming

        return streaming.StreamingMetric if name == "StreamingMetric" else streaming.metric_class(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
