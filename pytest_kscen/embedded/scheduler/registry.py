"""Which classes the names in a configuration stand for: the default plugins, those that users
register, dotted paths.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.framework.plugin_checks import refuse_what_is_none
from pytest_kscen.objects.arguments import nearest

if TYPE_CHECKING:
    from pytest_kscen.embedded.scheduler.framework.plugin import Plugin

DEFAULT = (
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
    "NodeDeclaredFeatures",
    "GangScheduling",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
)
"""The plugins of kube-scheduler in its order, those too that are off by default."""


@cache
def default_plugins() -> dict[str, type[Plugin]]:
    """Import the plugins of kube-scheduler, when a profile first needs one."""
    from pytest_kscen.embedded.scheduler.plugins.default_preemption import DefaultPreemption
    from pytest_kscen.embedded.scheduler.plugins.image_locality import ImageLocality
    from pytest_kscen.embedded.scheduler.plugins.inter_pod_affinity import InterPodAffinity
    from pytest_kscen.embedded.scheduler.plugins.node_affinity import NodeAffinity
    from pytest_kscen.embedded.scheduler.plugins.node_filters import (
        NodeDeclaredFeatures,
        NodeName,
        NodePorts,
        NodeUnschedulable,
    )
    from pytest_kscen.embedded.scheduler.plugins.node_resources import (
        NodeResourcesBalancedAllocation,
        NodeResourcesFit,
    )
    from pytest_kscen.embedded.scheduler.plugins.not_simulated import (
        DynamicResources,
        GangScheduling,
        PodGroupPodsCount,
        TopologyPlacementGenerator,
    )
    from pytest_kscen.embedded.scheduler.plugins.pod_topology_spread import PodTopologySpread
    from pytest_kscen.embedded.scheduler.plugins.queueing_and_binding import (
        DefaultBinder,
        PrioritySort,
        SchedulingGates,
    )
    from pytest_kscen.embedded.scheduler.plugins.taint_toleration import TaintToleration
    from pytest_kscen.embedded.scheduler.plugins.volume_binding import VolumeBinding
    from pytest_kscen.embedded.scheduler.plugins.volume_limits import (
        NodeVolumeLimits,
        VolumeRestrictions,
    )
    from pytest_kscen.embedded.scheduler.plugins.volume_zone import VolumeZone

    plugins: tuple[type[Plugin], ...] = (
        SchedulingGates,
        PrioritySort,
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        DefaultPreemption,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        DefaultBinder,
        NodeDeclaredFeatures,
        GangScheduling,
        TopologyPlacementGenerator,
        PodGroupPodsCount,
    )
    return dict(zip(DEFAULT, plugins, strict=True))


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
            return default_plugins()[name]
        if ":" in name:
            module, _, attribute = name.partition(":")
            try:
                found: Any = getattr(importlib.import_module(module), attribute)
            except (ImportError, AttributeError) as error:
                raise ValueError(f"there is no plugin {name!r}: {error}") from None
            refuse_what_is_none(found, name)
            imported: type[Plugin] = found
            return imported
        hint = (
            nearest(name, self.names())
            or "; a plugin of your own is named by its path, as in 'package.module:Class'"
        )
        raise ValueError(f"there is no plugin {name!r}{hint}")
