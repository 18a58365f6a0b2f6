"""Images that belong together because a record shows both of them."""

from __future__ import annotations

from collections.abc import Sequence


def linked_images(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return a name for the group of each image: images that a pair joins, also by way of others, are of one group.

    A group bears the name of its first image in alphabetical order.

    >>> linked_images([("b", "c"), ("d", "e"), ("a", "c")])
    {'b': 'a', 'c': 'a', 'd': 'd', 'e': 'd', 'a': 'a'}
    """
    parent: dict[str, str] = {}

    def root(image: str) -> str:
        while parent.setdefault(image, image) != image:
            parent[image] = parent[parent[image]]
            image = parent[image]
        return image

    for one, other in pairs:
        first, second = sorted((root(one), root(other)))
        parent[second] = first
    return {image: root(image) for image in parent}
