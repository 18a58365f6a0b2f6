"""What differs between two sentences."""

Words = list[str]


def words_apart(first: Words, second: Words) -> tuple[Words, Words]:
    """What stands between the words that two sentences begin and end with in common."""
    while first and second and first[0] == second[0]:
        first, second = first[1:], second[1:]
    while first and second and first[-1] == second[-1]:
        first, second = first[:-1], second[:-1]
    return first, second
