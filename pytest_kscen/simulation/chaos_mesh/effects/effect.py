"""What the daemon asks of an effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.chaos_mesh.targets import Target


@dataclass(frozen=True, slots=True)
class Wait:
    """Not yet, and why; the daemon asks again when the target has changed."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """There is no such target any more."""


GONE = Gone()


class Effect(Protocol):
    """On the pods, as they are now; one that is None has vanished, or another has taken its name."""

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:
        """None: all that can be done is done. Asked again until the effect is seen."""

    def unseen(self, chaos: Obj, target: Target) -> str:
        """Why the effect cannot be seen yet; empty if it is there. Asked after all targets have been injected."""

    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:
        """Undo what was done to this target; nothing of it is left in here."""

    def forget(self, chaos: Obj) -> None:
        """It has gone, perhaps without being recovered, because somebody took its finalizer away."""
