"""The markers that declare a test's cluster, churn and chaos, and what may stand in them. No engine may be imported here early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.markers.planning import PLAN_FROM_COMMAND_LINE, plan
from pytest_kscen.markers.wish import ClusterWish, cluster_wish

if TYPE_CHECKING:
    import pytest

__all__ = ["DECLARING", "MARKERS", "ClusterWish", "check", "cluster_wish", "plan"]

DECLARING = ("cluster", "volume_churn", "chaos", PLAN_FROM_COMMAND_LINE)

MARKERS = (
    "megatest: volume churn under chaos; `pytest -m megatest` runs them all",
    "controlplane: needs the real control plane's programs on this machine",
    "cluster(backend=..., nodes=6, scope='function'): the test's cluster; scope 'module' or 'session' shares one",
    "volume_churn(storage_classes=..., max_volumes=10, lifetime=('1m', '5m'), ...): volumes come and go while the test runs",
    "chaos(profile, **parameters): faults while the test runs; may stand several times",
    f"{PLAN_FROM_COMMAND_LINE}(): volumes come and go, and --enable-… flags switch on what happens to them",
)


def check(item: pytest.Item) -> list[str]:
    """What is wrong with this test's markers and with the settings that fill them, one line each."""
    complaints = []
    for read in (cluster_wish, plan):
        try:
            read(item)
        except (TypeError, ValueError) as error:
            complaints += [f"{item.nodeid}: {line}" for line in str(error).splitlines()]
    return complaints
