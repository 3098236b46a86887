"""How much a CSI driver can still provision where: its CSIStorageCapacity objects, if it says that it keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.quantities import nanos
from pytest_kscen.objects.selectors import matches_selector
from pytest_kscen.simulation.scheduler.framework.kinds import CSI_DRIVERS, CSI_STORAGE_CAPACITIES

if TYPE_CHECKING:
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Obj


class StorageCapacities:
    """Asked before a volume is to be provisioned on a node."""

    def __init__(self, informers: Informers) -> None:
        self._drivers = informers.of(CSI_DRIVERS)
        self._capacities = informers.of(CSI_STORAGE_CAPACITIES)

    def suffice(self, claim: Obj, storage_class: Obj, node: Obj) -> bool:
        driver = self._drivers.get(storage_class.get("provisioner", ""))
        if driver is None or not (driver.get("spec") or {}).get("storageCapacity"):
            return True
        wanted = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
        name, labels = storage_class["metadata"]["name"], node["metadata"].get("labels")
        return wanted is None or any(
            one.get("storageClassName") == name
            and (limit := one.get("maximumVolumeSize") or one.get("capacity"))
            and nanos(limit) >= nanos(wanted)
            and matches_selector(one.get("nodeTopology"), labels)
            for one in self._capacities
        )
