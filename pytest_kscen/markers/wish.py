"""What a test asks of its cluster."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_kscen.markers.parameters import keywords_of_all
from pytest_kscen.options import BACKENDS, SETTINGS

if TYPE_CHECKING:
    import pytest

SCOPES = ("function", "module", "session")


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterWish:
    """None leaves it to the settings and the backend."""

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


def cluster_wish(item: pytest.Item) -> ClusterWish:
    said = keywords_of_all(item, "cluster", ClusterWish)
    try:
        return ClusterWish(**said)
    except ValueError as error:
        raise ValueError(f"@pytest.mark.cluster: {error}") from error


def backend_of(item: pytest.Item) -> str:
    """Where this test's cluster comes from."""
    return cluster_wish(item).backend or item.config.stash[SETTINGS].kscen_cluster
