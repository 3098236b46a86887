"""Chaos whose targets are not here: it is never injected, and its records and events say why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.simulation.chaos_mesh.effects.effect import Gone, Wait

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.chaos_mesh.targets import Target


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """One reason."""

    why: str

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:  # noqa: ARG002  # whatever it is
        return Wait(self.why)

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # as above
        return self.why

    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:  # noqa: ARG002  # nothing was done
        return None

    def forget(self, chaos: Obj) -> None:
        """Nothing was done."""
