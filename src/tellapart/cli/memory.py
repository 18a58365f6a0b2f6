"""Too little memory, as an error of one line: the libraries' errors for it, and the least that any command needs."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

from tellapart.errors import RunError, first_line

__all__ = ["describe_lack", "refuse_little_memory"]

#: Address space below which a command is refused: OpenBLAS (numpy) ends the process without memory, or tries for ever.
_LEAST_BYTES = 1 << 30

#: Words of libraries for it; MemoryError and ENOMEM need none.
_LACKS = re.compile(
    r"can't allocate memory|cannot allocate memory|not enough memory|out of memory|failed to allocate|bad_alloc"
    r"|bad allocation|unable to allocate|can't start new thread|failed to map segment|resource temporarily unavailable"
    r"|insufficient memory",
    re.IGNORECASE,
)


def describe_lack(error: BaseException) -> str | None:
    """Return one line for an error whose cause is too little memory; None for any other.

    >>> describe_lack(MemoryError("Unable to allocate 34 MiB"))[:33], describe_lack(ValueError("x"))
    ('too little memory (Unable to allo', None)
    """
    for each in _walk_causes(error):
        system = isinstance(each, OSError) and each.errno == errno.ENOMEM
        library = isinstance(each, RuntimeError | ImportError | SystemError) or type(each) is Exception
        if isinstance(each, MemoryError) or system or (library and _LACKS.search(first_line(each))):
            what = first_line(each)
            return (
                f"too little memory ({what}); what was done is kept: run the same command again with more, or with a "
                "smaller --batch-size or fewer --workers where the command has them"
            )
    return None


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that it was raised from or while, each once."""
    seen: set[int] = set()
    here: BaseException | None = error
    while here is not None and id(here) not in seen:
        seen.add(id(here))
        yield here
        here = here.__cause__ or here.__context__


def refuse_little_memory() -> None:
    """Refuse to begin if the process may not have the memory that every command needs.

    Raises:
        RunError: the limit is too low (`ulimit -v`).
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST_BYTES:
        raise RunError(
            f"this process may have {limit >> 20:,} MiB of address space, and every command needs "
            f"{_LEAST_BYTES >> 20:,}; raise the limit (ulimit -v, or the service's)"
        )
