"""What all kubelets of a cluster share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.events import Recorder
    from pytest_kscen.simulation.brood import Brood
    from pytest_kscen.simulation.images import Images
    from pytest_kscen.simulation.kubelet.volumes import Mounter
    from pytest_kscen.simulation.logs import Logs
    from pytest_kscen.simulation.network.hosts import Hosts


@dataclass(frozen=True, slots=True)
class Tools:
    """One set for all machines."""

    api: Api
    clock: Clock
    recorder: Recorder
    images: Images
    logs: Logs
    mounter: Mounter
    brood: Brood
    hosts: Hosts
