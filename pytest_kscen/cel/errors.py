"""Errors of expressions: all issues when compiling, the first error when evaluating.

Messages are cel-go's, as Kubernetes shows them to users.
"""

from __future__ import annotations

from typing import NamedTuple


class Issue(NamedTuple):
    """Error in an expression; `at` is its character offset in the source."""

    at: int
    message: str


class CompilationError(ValueError):
    """Expression that does not compile; its text shows each issue below its line, as
    cel-go does.
    """

    def __init__(self, source: str, issues: list[Issue]) -> None:
        super().__init__(source, issues)
        self._source = source
        self._issues = sorted(issues)

    def __str__(self) -> str:
        shown: list[str] = []
        for issue in self._issues:
            before = self._source[: issue.at]
            number, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
            line = self._source.split("\n")[number]
            shown.append(
                f"ERROR: <input>:{number + 1}:{column + 1}: {issue.message}\n | {line}\n | "
                f"{'.' * column}^"
            )
        return "\n".join(shown)


class EvaluationError(ValueError):
    """Expression that has no value for these variables; the text is cel-go's.

    Also a ValueError, which callers turn into a refusal or, in `&&` and `||`, ignore when the other
    side decides.
    """


def no_such_overload() -> EvaluationError:
    return EvaluationError("no such overload")
