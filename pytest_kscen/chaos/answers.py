"""What of an incident was done, as far as the API's answers tell: a refusal says no, and one that was lost says nothing."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.kube.retrying import may_be_done

if TYPE_CHECKING:
    from collections.abc import Container, Iterator


@dataclass(slots=True)
class Answers:
    """By an incident's parts; one that goes in one has the part ""."""

    yes: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def of(self, part: str) -> Iterator[None]:
        """The request for this part of it is made within."""
        try:
            yield
        except BaseException as error:
            if may_be_done(error):
                self.lost.append(part)
            raise
        self.yes.append(part)

    def found(self) -> None:
        """Somebody has looked: what was asked for is there."""
        self.yes += self.lost
        self.lost.clear()

    def never(self, parts: Container[str]) -> None:
        """Somebody has looked: of those whose answers were lost these were not done, and of the others nobody can tell."""
        self.lost = [part for part in self.lost if part not in parts]

    def nothing(self) -> None:
        """Nobody does it."""
        self.yes.clear()
        self.lost.clear()

    def __contains__(self, part: object) -> bool:
        """Whether this part is done, or may be."""
        return part in self.yes or part in self.lost

    def __bool__(self) -> bool:
        return bool(self.yes or self.lost)
