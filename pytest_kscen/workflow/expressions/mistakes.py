"""What is wrong with an expression, said so that its writer finds the place."""

from __future__ import annotations

LONGEST_SHOWN = 200


class ExpressionError(ValueError):
    """The expression cannot be read, or has no value."""


class Mistake(Exception):
    """What is wrong, and where; whoever knows the whole text makes an ExpressionError of it."""

    def __init__(self, why: str, at: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.at = at

    def within(self, text: str) -> ExpressionError:
        shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
        place = "" if self.at is None else f", column {self.at + 1}"
        return ExpressionError(f"expression {shown!r}{place}: {self.why}")
