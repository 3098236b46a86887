"""Plugin ImageLocality: prefer nodes that already have the pod's images.

Larger images and images on more nodes score higher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.plugins.score_formulas import MAX_SCORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.events import Interest
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import NodeTable, Rows, Scores
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo

MB = 1024 * 1024
MIN_IMAGE_SIZE, MAX_CONTAINER_SIZE = (
    23 * MB,
    1000 * MB,
)  # bytes; kube-scheduler's thresholds, the second one per container


class ImageLocality(Plugin):
    """Score by the sizes of present images, scaled by the share of nodes that have them; between
    the thresholds of kube-scheduler.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._columns: dict[str, tuple[int, Scores]] = {}

    def is_indifferent(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> bool:
        images = self.handle.snapshot.images
        return not any(name in images for name in pod.memo(self.name, _image_names)[0])

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        names, containers = pod.memo(self.name, _image_names)
        here = node.images
        total = sum(self._image_score(name) for name in names if name in here) if here else 0
        least, most = MIN_IMAGE_SIZE, MAX_CONTAINER_SIZE * containers
        return MAX_SCORE * (min(max(total, least), most) - least) // (most - least)

    def _image_score(self, name: str) -> int:
        """Return the image's size in bytes times the share of nodes that have it."""
        image = self.handle.snapshot.images[name]
        return int(
            float(image.size) * (float(len(image.nodes)) / float(len(self.handle.snapshot.nodes)))
        )

    def score_many(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        import numpy as np

        names, containers = pod.memo(self.name, _image_names)
        known = [name for name in names if name in self.handle.snapshot.images]
        if not known:
            return np.zeros(len(rows), np.int64)
        total: Scores = sum(
            (self._column(name, table)[rows] for name in known), np.zeros(len(rows), np.int64)
        )
        least, most = MIN_IMAGE_SIZE, MAX_CONTAINER_SIZE * containers
        return MAX_SCORE * (np.clip(total, least, most) - least) // (most - least)

    def _column(self, name: str, table: NodeTable) -> Scores:
        import numpy as np

        version, column = self._columns.get(name, (-1, None))
        if column is None or version != table.changes:
            column = np.zeros(len(table.nodes), np.int64)
            for node_name in self.handle.snapshot.images[name].nodes:
                node = self.handle.snapshot.get(node_name)
                if node is not None:
                    column[node.row] = self._image_score(name)
            self._columns[name] = (table.changes, column)
        return column

    def events(self) -> Sequence[Interest]:
        return ()


def _image_names(pod: PodInfo) -> tuple[list[str], int]:
    """Return the image names of the pod's containers and volumes, and the number of containers."""
    containers = [*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())]
    volumes = [volume["image"] for volume in pod.spec.get("volumes") or () if volume.get("image")]
    names = [container.get("image") or "" for container in containers] + [
        volume.get("reference") or "" for volume in volumes
    ]
    tagged = [name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in names]
    return tagged, len(containers)
