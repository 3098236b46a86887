"""What every form of a probe is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.probes.reading import Part
    from pytest_kscen.workflow.probes.verdicts import Outcome


@dataclass(frozen=True, slots=True)
class Errand:
    """In whose name is asked, and about whom."""

    actor: Actor
    subject: dict[str, str]
    owner: Obj | None = None
    """The reference that what is made on the way carries."""

    @property
    def namespace(self) -> str:
        return self.subject.get("namespace", "default")

    @property
    def of(self) -> str:
        return self.subject.get("node") or self.subject.get("workflow", "")


class Form(Protocol):
    """A way to ask."""

    patience: ClassVar[float]
    """Seconds that it waits for an answer if nothing else is said."""

    @classmethod
    def of(cls, part: Part) -> Self: ...

    async def ask(self, errand: Errand, within: float) -> Outcome:
        """What cannot be asked is an ApiError, an OSError or a ValueError; who asks stops waiting after `within` seconds."""
