"""What lines of one run cannot do: go back in time, tell a turn of the run again or out of its order, or change what was not so."""

from __future__ import annotations

from typing import Any

TURNS = ("run-started", "frozen", "healed", "liveness", "leftovers", "run-ended")
"""What a run tells once at most, in this order. Whatever else it tells may come after its end, too."""
AS_IT_WAS = "bring the file back as the run has left it"
WELL = "True"


class Course:
    """How far a journal has come, whose lines are told one after the other."""

    def __init__(self) -> None:
        self._line = self._turned_on = 0
        self._at = 0.0
        self._turn = ""
        self._seen: dict[str, dict[str, str]] = {}
        """Of each volume that is checked, how its conditions were seen last."""

    def against(self, at: float, what: str, data: dict[str, Any]) -> str:
        """Why the next line cannot be there; nothing if it can."""
        if what in TURNS:
            if self._turn and TURNS.index(what) <= TURNS.index(self._turn):
                return f"{what!r} cannot come after {self._turn!r} on line {self._turned_on}, in one run: {AS_IT_WAS}"
            self._turn, self._turned_on = what, self._line + 1
        if not at >= self._at:  # as of NaN, too
            before = f"the {self._at} s of line {self._line}" if self._line else "the run's beginning"
            return f"{at} s is before {before}, and time does not go back: {AS_IT_WAS}"
        self._line, self._at = self._line + 1, at
        try:
            return self._against_conditions(what, data)
        except (KeyError, TypeError, AttributeError):
            return ""  # whoever needs what the line lacks says so

    def _against_conditions(self, what: str, data: dict[str, Any]) -> str:
        if what == "checker-started":
            self._seen[data["volume"]] = dict.fromkeys(data["conditions"], WELL)
        elif what == "condition-changed":
            seen, name = self._seen[data["volume"]], data["condition"]
            before, now = data["expected"], data["observed"]
            if _differs(before, seen[name]) or not _differs(now, before):
                return f"{name} of {data['volume']} was {seen[name]}, and cannot change from {before} to {now}: {AS_IT_WAS}"
            seen[name] = now
        elif what == "checker-stopped":
            seen = self._seen.pop(data["volume"])
            for name, now in data["conditions"].items():
                if _differs(now, seen[name]):
                    return f"{name} of {data['volume']} was {seen[name]} by the lines before, and is {now} here: {AS_IT_WAS}"
        return ""

    @property
    def against_a_cut(self) -> str:
        """Why the next line cannot have been cut off by whatever killed the run; nothing if it can."""
        if self._turn != TURNS[-1]:
            return ""
        return f"it is no whole line, though the run had ended by line {self._turned_on}: {AS_IT_WAS}"


def _differs(one: str, other: str) -> bool:
    """What is not well is all the same."""
    return (one == WELL) is not (other == WELL)
