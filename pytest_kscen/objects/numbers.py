"""What may be given as a number of things, and as a range from the least to the most; and what is said of anything else."""

from __future__ import annotations

PAIR = 2
ORDER = "give the least and the most, in this order, each more than zero"


def is_whole(given: object, least: int = 1) -> bool:
    """Whether it is a number of things; True and False are none."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= least


def is_number(given: object) -> bool:
    """Whether it is a number above zero."""
    return isinstance(given, int | float) and not isinstance(given, bool) and given > 0


def is_range(given: object, *, whole: bool = False) -> bool:
    may_be = is_whole if whole else is_number
    return isinstance(given, list | tuple) and len(given) == PAIR and all(map(may_be, given)) and given[0] <= given[1]


def valid_range(name: str, given: object, *, whole: bool = False) -> None:
    if not is_range(given, whole=whole):
        raise no_range(name, given, whole=whole)


def no_range(name: str, given: object, *, whole: bool = False) -> ValueError:
    """What is wrong with what was given for the parameter of this name."""
    return ValueError(f"{name}={given!r}: {ORDER}{', in whole numbers' if whole else ''}")
