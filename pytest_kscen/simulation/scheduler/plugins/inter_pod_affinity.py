"""Affinity between pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.simulation.scheduler.framework.events import Interest


class InterPodAffinity(Plugin):
    def events(self) -> Sequence[Interest]:
        return ()
