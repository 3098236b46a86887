"""Registry of plugin classes by the names that a configuration uses.

Names are those of kube-scheduler's plugins, of classes that users register, or dotted paths as
`package.module:Class`.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.framework.plugin_checks import check_plugin_class
from pytest_kscen.objects.arguments import nearest

if TYPE_CHECKING:
    from pytest_kscen.embedded.scheduler.framework.plugin import Plugin

DEFAULT_PLUGIN_NAMES = (
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
"""Plugins of kube-scheduler in its own order, including those that are off by default."""


@cache
def default_plugins() -> dict[str, type[Plugin]]:
    """Import the plugins of kube-scheduler and return them by name. Called when a profile first
    needs one, so that a cluster without a scheduler does not pay for the import.
    """
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
    return dict(zip(DEFAULT_PLUGIN_NAMES, plugins, strict=True))


class Registry:
    """Plugin classes that a scheduler's configuration may name. After `registry.register(MyPlugin)`
    the name `MyPlugin` can be used; dotted paths need no registration.
    """

    def __init__(self) -> None:
        self._own: dict[str, type[Plugin]] = {}

    def register(self, plugin: type[Plugin], name: str = "") -> type[Plugin]:
        """Register a plugin class under its own name or another, and return it, so that this can be
        used as a decorator. ValueError if the class cannot be a plugin.
        """
        check_plugin_class(plugin)
        self._own[name or plugin.name] = plugin
        return plugin

    def names(self) -> list[str]:
        return [*DEFAULT_PLUGIN_NAMES, *self._own]

    def resolve(self, name: str) -> type[Plugin]:
        """Return the class for a name in a configuration. A ValueError for an unknown name suggests
        a similar one; a dotted path is imported.
        """
        if name in self._own:
            return self._own[name]
        if name in DEFAULT_PLUGIN_NAMES:
            return default_plugins()[name]
        if ":" in name:
            module, _, attribute = name.partition(":")
            try:
                # user's plugin
                found: Any = getattr(importlib.import_module(module), attribute)  # noqa: TID251
            except (ImportError, AttributeError) as error:
                raise ValueError(f"there is no plugin {name!r}: {error}") from None
            check_plugin_class(found, name)
            imported: type[Plugin] = found
            return imported
        hint = (
            nearest(name, self.names())
            or "; name your own plugin by its path, as in 'package.module:Class'"
        )
        raise ValueError(f"there is no plugin {name!r}{hint}")
