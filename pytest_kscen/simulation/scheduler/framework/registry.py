"""Which classes the names in a configuration stand for: the default plugins, those that users register, dotted paths."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.guesses import nearest
from pytest_kscen.simulation.scheduler.framework.answers import refuse_what_is_none

if TYPE_CHECKING:
    from pytest_kscen.simulation.scheduler.framework.plugin import Plugin

_HERE = "pytest_kscen.simulation.scheduler.plugins"
DEFAULT = {
    "SchedulingGates": "scheduling_gates",
    "PrioritySort": "priority_sort",
    "NodeUnschedulable": "node_unschedulable",
    "NodeName": "node_name",
    "TaintToleration": "taint_toleration",
    "NodeAffinity": "node_affinity",
    "NodePorts": "node_ports",
    "NodeResourcesFit": "node_resources_fit",
    "VolumeRestrictions": "volume_restrictions",
    "NodeVolumeLimits": "node_volume_limits",
    "VolumeBinding": "volume_binding",
    "VolumeZone": "volume_zone",
    "PodTopologySpread": "pod_topology_spread",
    "InterPodAffinity": "inter_pod_affinity",
    "DynamicResources": "dynamic_resources",
    "DefaultPreemption": "default_preemption",
    "NodeResourcesBalancedAllocation": "node_resources_balanced_allocation",
    "ImageLocality": "image_locality",
    "DefaultBinder": "default_binder",
    "NodeDeclaredFeatures": "node_declared_features",
    "GangScheduling": "pod_groups",
    "TopologyPlacementGenerator": "pod_groups",
    "PodGroupPodsCount": "pod_groups",
}
"""The plugins of kube-scheduler, those too that are off by default, and their modules; each is imported when a profile wants it."""


class Registry:
    """`registry.register(MyPlugin)`, and a configuration may name it `MyPlugin`."""

    def __init__(self) -> None:
        self._own: dict[str, type[Plugin]] = {}

    def register(self, plugin: type[Plugin], name: str = "") -> type[Plugin]:
        """Under its own name, or another; a ValueError if it is none. Usable as a decorator."""
        refuse_what_is_none(plugin)
        self._own[name or plugin.name] = plugin
        return plugin

    def names(self) -> list[str]:
        return [*DEFAULT, *self._own]

    def resolve(self, name: str) -> type[Plugin]:
        """The class; a ValueError that a person understands if there is none."""
        if name in self._own:
            return self._own[name]
        if name in DEFAULT:
            found: type[Plugin] = getattr(importlib.import_module(f"{_HERE}.{DEFAULT[name]}"), name)
            return found
        if ":" in name:
            return _imported(name)
        hint = nearest(name, self.names()) or "; a plugin of your own is named by its path, as in 'package.module:Class'"
        raise ValueError(f"there is no plugin {name!r}{hint}")


def _imported(path: str) -> type[Plugin]:
    module, _, attribute = path.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"there is no plugin {path!r}: {error}") from None
    refuse_what_is_none(found, path)
    imported: type[Plugin] = found
    return imported
