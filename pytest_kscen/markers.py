"""The markers that declare a test's cluster, churn and chaos, and what may stand in them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pytest_kscen.options import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from pytest_kscen.runs.plan import Plan

DECLARING = ("cluster", "volume_churn", "chaos")
SCOPES = ("function", "module", "session")

MARKERS = (
    "megatest: volume churn under chaos; `pytest -m megatest` runs them all",
    "controlplane: needs the real control plane's programs on this machine",
    "cluster(backend=..., nodes=6, scope='function'): the test's cluster; scope 'module' or 'session' shares one",
    "volume_churn(storage_classes=..., max_volumes=10, lifetime=('1m', '5m'), ...): volumes come and go while the test runs",
    "chaos(profile, **parameters): faults while the test runs; may stand several times",
)


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterWish:
    """What a test asks of its cluster; None leaves it to the settings and the backend."""

    backend: str | None = None
    nodes: int | None = None
    scope: str = "function"

    def __post_init__(self) -> None:
        if self.backend is not None and self.backend not in BACKENDS:
            raise ValueError(f"backend={self.backend!r}: choose one of {', '.join(BACKENDS)}")
        if self.scope not in SCOPES:
            raise ValueError(f"scope={self.scope!r}: choose one of {', '.join(SCOPES)}")
        if self.nodes is not None and (not isinstance(self.nodes, int) or self.nodes < 0):
            raise ValueError(f"nodes={self.nodes!r}: give a whole number, 0 or more")


def check(item: pytest.Item) -> list[str]:
    """What is wrong with this test's markers, one line each."""
    complaints = []
    for read in (cluster_wish, plan):
        try:
            read(item)
        except (TypeError, ValueError) as error:
            complaints.append(f"{item.nodeid}: {error}")
    return complaints


def cluster_wish(item: pytest.Item) -> ClusterWish:
    merged: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers("cluster"))):
        merged.update(_keywords(mark, ClusterWish))
    return ClusterWish(**merged)


def plan(item: pytest.Item) -> Plan:
    """The run that the markers declare."""
    from pytest_kscen.chaos.profiles import profile
    from pytest_kscen.megatest.churn import Churn
    from pytest_kscen.runs.plan import Plan

    churn = None
    if mark := item.get_closest_marker("volume_churn"):
        churn = Churn(**_settled(_keywords(mark, Churn), Churn))
    chaos = []
    for mark in reversed(list(item.iter_markers("chaos"))):
        if len(mark.args) != 1:
            raise ValueError("@pytest.mark.chaos takes the profile's name first, then its parameters by name")
        made = profile(mark.args[0], **mark.kwargs)
        chaos.append(dataclasses.replace(made, **_settled(mark.kwargs, type(made))))  # type: ignore[type-var]
    return Plan(churn, tuple(chaos))


def _keywords(mark: pytest.Mark, kind: type[Any]) -> dict[str, Any]:
    known = [field.name for field in dataclasses.fields(kind)]
    if mark.args:
        raise ValueError(f"@pytest.mark.{mark.name} takes its parameters by name: {', '.join(known)}")
    for name in mark.kwargs:
        if name not in known:
            raise ValueError(f"@pytest.mark.{mark.name} has no parameter {name!r}; its parameters are {', '.join(known)}")
    return dict(mark.kwargs)


def _settled(keywords: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Values in our own units: a pair of durations in seconds, in order; lists as tuples."""
    from pytest_kscen.objects.durations import seconds_of

    types = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    settled: dict[str, Any] = {}
    for name, value in keywords.items():
        if types[name] == "tuple[float, float]":
            settled[name] = _ordered(name, tuple(seconds_of(one) for one in value))
        elif types[name] == "tuple[int, int]":
            settled[name] = _ordered(name, tuple(value))
        else:
            settled[name] = tuple(value) if isinstance(value, list) else value
    return settled


def _ordered(name: str, pair: tuple[Any, ...]) -> tuple[Any, ...]:
    numbers = len(pair) == 2 and all(isinstance(one, int | float) for one in pair)  # noqa: PLR2004  # a pair
    if not numbers or pair[0] > pair[1] or pair[0] < 0:
        raise ValueError(f"{name}={pair!r}: give the least and the most, in this order")
    return pair
