"""What `test` and `[` find true, of texts, numbers and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scripts.words import ScriptError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def holds(words: list[str], files: Mapping[str, str]) -> bool:
    match words:
        case [] | [_]:
            return bool(words and words[0])
        case ["-n" | "-z" as operator, word]:
            return bool(word) is (operator == "-n")
        case ["-f" | "-e" | "-s" | "-r", word]:
            return word in files
        case [left, "=" | "==" | "!=" as operator, right]:
            return (left == right) is (operator != "!=")
        case [left, operator, right] if operator in _NUMBERS:
            return _NUMBERS[operator](_number(left), _number(right))
    raise ScriptError(f"test: {' '.join(words)} is not understood here")


_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ScriptError(f"test: {text!r} is no number") from error
