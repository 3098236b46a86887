"""For actors that outlive a run: what they write goes into the journal that is open just then; without one, nobody keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.journal.journal import Witness

if TYPE_CHECKING:
    from pytest_kscen.journal.journal import Journal


class Relay:
    """Where a `Journal` is written to."""

    def __init__(self) -> None:
        self.to: Journal | None = None

    @property
    def now(self) -> float | None:
        return None if self.to is None else self.to.now

    def witness(self, who: str) -> Witness:
        return Witness(self, who)

    def write(self, who: str, what: str, data: dict[str, Any]) -> None:
        if self.to is not None:
            self.to.write(who, what, data)
