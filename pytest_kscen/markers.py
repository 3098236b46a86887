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
    from pytest_kscen.chaos.profiles import kind_of
    from pytest_kscen.megatest.churn import Churn
    from pytest_kscen.runs.plan import Plan

    churn = None
    if mark := item.get_closest_marker("volume_churn"):
        churn = Churn(**_settled(_keywords(mark, Churn), Churn))
    chaos = []
    for mark in reversed(list(item.iter_markers("chaos"))):
        if len(mark.args) != 1:
            raise ValueError("@pytest.mark.chaos takes the profile's name first, then its parameters by name")
        kind = kind_of(mark.args[0], mark.kwargs)
        chaos.append(kind(**_settled(mark.kwargs, kind)))
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
    """Values in our own units: a range as a pair, times in seconds; lists as tuples."""
    types = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    return {name: _value(name, value, types[name]) for name, value in keywords.items()}


def _value(name: str, value: Any, kind: str) -> Any:
    if kind not in {"tuple[float, float]", "tuple[int, int]"}:
        return tuple(value) if isinstance(value, list) else value
    if not isinstance(value, list | tuple) or len(value) != 2:  # noqa: PLR2004  # a pair
        raise ValueError(f"{name}={value!r}: give two values, the least and the most")
    pair = tuple(value) if kind == "tuple[int, int]" else tuple(_seconds(name, one) for one in value)
    if not all(isinstance(one, int | float) and one > 0 for one in pair) or pair[0] > pair[1]:
        raise ValueError(f"{name}={value!r}: give the least and the most, in this order, each more than zero")
    return pair


def _seconds(name: str, duration: Any) -> float:
    from pytest_kscen.objects.durations import seconds_of

    try:
        return seconds_of(duration)
    except (AttributeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error
