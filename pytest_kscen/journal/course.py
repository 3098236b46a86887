"""What lines of one run cannot do: go back in time, or tell a turn of the run again, or out of its order."""

from __future__ import annotations

TURNS = ("run-started", "frozen", "healed", "liveness", "leftovers", "run-ended")
"""What a run tells once at most, in this order. Whatever else it tells may come after its end, too."""
AS_IT_WAS = "bring the file back as the run has left it"


class Course:
    """How far a journal has come, whose lines are told one after the other."""

    def __init__(self) -> None:
        self._line = self._turned_on = 0
        self._at = 0.0
        self._turn = ""

    def against(self, at: float, what: str) -> str:
        """Why the next line cannot be there; nothing if it can."""
        if what in TURNS:
            if self._turn and TURNS.index(what) <= TURNS.index(self._turn):
                return f"{what!r} cannot come after {self._turn!r} on line {self._turned_on}, in one run: {AS_IT_WAS}"
            self._turn, self._turned_on = what, self._line + 1
        if not at >= self._at:  # as of NaN, too
            before = f"the {self._at} s of line {self._line}" if self._line else "the run's beginning"
            return f"{at} s is before {before}, and time does not go back: {AS_IT_WAS}"
        self._line, self._at = self._line + 1, at
        return ""

    @property
    def against_a_cut(self) -> str:
        """Why the next line cannot have been cut off by whatever killed the run; nothing if it can."""
        if self._turn != TURNS[-1]:
            return ""
        return f"it is no whole line, though the run had ended by line {self._turned_on}: {AS_IT_WAS}"
