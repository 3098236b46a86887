"""Nodes that have the pod's images already are better, the more so the larger the images and the
more nodes have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.plugins.score_formulas import BEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.events import Interest
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Scores, Table
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo

MB = 1024 * 1024
LEAST, MOST = (
    23 * MB,
    1000 * MB,
)  # less than the one counts as nothing, more than the other (a container) as no more


class ImageLocality(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._columns: dict[str, tuple[int, Scores]] = {}

    def is_indifferent(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> bool:
        images = self.handle.snapshot.images
        return not any(name in images for name in pod.memo(self.name, _images)[0])

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        names, containers = pod.memo(self.name, _images)
        here = node.images
        total = sum(self._worth(name) for name in names if name in here) if here else 0
        least, most = LEAST, MOST * containers
        return BEST * (min(max(total, least), most) - least) // (most - least)

    def _worth(self, name: str) -> int:
        """Its size, times the part of the nodes that have it."""
        image = self.handle.snapshot.images[name]
        return int(
            float(image.size) * (float(len(image.nodes)) / float(len(self.handle.snapshot.nodes)))
        )

    def score_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Scores:
        import numpy as np

        names, containers = pod.memo(self.name, _images)
        known = [name for name in names if name in self.handle.snapshot.images]
        if not known:
            return np.zeros(len(rows), np.int64)
        total: Scores = sum(
            (self._column(name, table)[rows] for name in known), np.zeros(len(rows), np.int64)
        )
        least, most = LEAST, MOST * containers
        return BEST * (np.clip(total, least, most) - least) // (most - least)

    def _column(self, name: str, table: Table) -> Scores:
        """What this image is worth on each row."""
        import numpy as np

        version, column = self._columns.get(name, (-1, None))
        if column is None or version != table.changes:
            column = np.zeros(len(table.nodes), np.int64)
            for node_name in self.handle.snapshot.images[name].nodes:
                node = self.handle.snapshot.get(node_name)
                if node is not None:
                    column[node.row] = self._worth(name)
            self._columns[name] = (table.changes, column)
        return column

    def events(self) -> Sequence[Interest]:
        return ()


def _images(pod: PodInfo) -> tuple[list[str], int]:
    """The names of the images of the pod's containers and volumes, and how many containers there
    are.
    """
    containers = [*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())]
    volumes = [volume["image"] for volume in pod.spec.get("volumes") or () if volume.get("image")]
    names = [container.get("image") or "" for container in containers] + [
        volume.get("reference") or "" for volume in volumes
    ]
    return [_tagged(name) for name in names], len(containers)


def _tagged(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
