"""Chaos: profiles that draw incidents, faults as data, and the observer of their effects.

Public: the names in `__all__`, for packages with profiles of their own (docs/extending.md). They do
not change within a minor version; other names may change at any time. Only the API client, the
clock, chance and the journal may be imported here; never a simulation.

    profile, profiles      base and facts of a profile; built-in profiles and their registry
    incidents              one incident's life, and the loop that repeats incidents
    network_*, pod_*, vm_* faults, by kind
    observer, troubles     observed troubles of the cluster, and the incident that explains each
    cleanup, clients       leftovers of runs; clients of both clusters, Jobs on nodes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.chaos.profile import (
    INCIDENT,
    PERIOD,
    ChaosOption,
    CreatedObjects,
    Profile,
    range_options,
    valid_times,
    valid_variants,
)
from pytest_kscen.lazy import lazy_names
from pytest_kscen.objects.arguments import CountRange, Duration, DurationRange
from pytest_kscen.objects.resources import NODES

if TYPE_CHECKING:
    from pytest_kscen.chaos.clients import ClusterClients, FaultImpossible
    from pytest_kscen.chaos.incidents import (
        EXPECTED_ERRORS,
        Fault,
        Incident,
        cause_incident,
        draw_variant,
        end_incident,
        note_skipped,
        repeat_incidents,
    )
    from pytest_kscen.chaos.troubles import LINK, MACHINE, NODE, VOLUME, ExplanatoryPower, Reach

__all__ = [
    "EXPECTED_ERRORS",
    "INCIDENT",
    "LINK",
    "MACHINE",
    "NODE",
    "NODES",
    "PERIOD",
    "VOLUME",
    "ChaosOption",
    "ClusterClients",
    "CountRange",
    "CreatedObjects",
    "Duration",
    "DurationRange",
    "ExplanatoryPower",
    "Fault",
    "FaultImpossible",
    "Incident",
    "Profile",
    "Reach",
    "cause_incident",
    "draw_variant",
    "end_incident",
    "note_skipped",
    "range_options",
    "repeat_incidents",
    "valid_times",
    "valid_variants",
]

__getattr__ = lazy_names(
    __name__,
    {
        "pytest_kscen.chaos.clients": ("ClusterClients", "FaultImpossible"),
        "pytest_kscen.chaos.incidents": (
            "EXPECTED_ERRORS",
            "Fault",
            "Incident",
            "cause_incident",
            "draw_variant",
            "end_incident",
            "note_skipped",
            "repeat_incidents",
        ),
        "pytest_kscen.chaos.troubles": (
            "LINK",
            "MACHINE",
            "NODE",
            "VOLUME",
            "ExplanatoryPower",
            "Reach",
        ),
    },
)
"""Modules of faults are imported when a run first needs them: pytest starts without asyncio."""
