"""The rows of an embedding store, for tests that count what was kept."""

from collections import Counter

from tellapart.models.store.row_file import RowFile


def count_rows(store: RowFile) -> Counter[str]:
    """Count the rows by the first word of their space: vectors, scores, pictures, models."""
    rows = Counter[str]()
    for space in store.spaces():
        rows[space.name.partition(" ")[0]] += space.rows
    return rows
