"""Clusters of rows that share pictures, which no split may part."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["join_clusters"]


def join_clusters(clusters: Sequence[str], pictures: Sequence[int]) -> dict[str, str]:
    """Return for each cluster the first name of those that it shares pictures with, directly or by others.

    Args:
        clusters: of each row.
        pictures: the number of each row's picture.

    >>> join_clusters(["a", "b", "c"], [0, 1, 1])
    {'a': 'a', 'b': 'b', 'c': 'b'}
    """
    above = {cluster: cluster for cluster in clusters}

    def first(cluster: str) -> str:
        while above[cluster] != cluster:
            above[cluster] = above[above[cluster]]
            cluster = above[cluster]
        return cluster

    showing: dict[int, str] = {}
    for cluster, picture in zip(clusters, pictures, strict=True):
        one, other = sorted((first(cluster), first(showing.setdefault(picture, cluster))))
        above[other] = one
    return {cluster: first(cluster) for cluster in above}
