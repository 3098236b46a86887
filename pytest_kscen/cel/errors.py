"""What can be wrong with an expression: when it is compiled, all mistakes with their places;
when it is evaluated, the first.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """At an offset in the source."""

    at: int
    words: str


class Mistakes(ValueError):
    """An expression that does not compile; the text shows each mistake in its line, as cel-go
    does.
    """

    def __init__(self, source: str, mistakes: list[Mistake]) -> None:
        super().__init__(source, mistakes)
        self._source = source
        self._mistakes = sorted(mistakes)

    def __str__(self) -> str:
        return "\n".join(self._shown(mistake) for mistake in self._mistakes)

    def _shown(self, mistake: Mistake) -> str:
        before = self._source[: mistake.at]
        number, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
        line = self._source.split("\n")[number]
        return (
            f"ERROR: <input>:{number + 1}:{column + 1}: {mistake.words}\n | {line}\n | "
            f"{'.' * column}^"
        )


class EvaluationError(ValueError):
    """An expression that has no value; the text is cel-go's."""


def no_such_overload() -> EvaluationError:
    return EvaluationError("no such overload")
