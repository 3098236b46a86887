"""KubeSchedulerConfiguration as immutable data, with the defaults of kube-scheduler 1.36.

`configuration_loading` makes it from YAML or JSON; profiles and the scheduler read it. Validation
is done before, not here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.scheduler.framework.plugin import POINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_SCHEDULER_NAME = "default-scheduler"
MULTI_POINT = "multiPoint"
ALL = "*"


class EnabledPlugin(NamedTuple):
    """Plugin switched on at an extension point or at multiPoint."""

    name: str
    weight: int = 0
    """Weight of its scores; 0 means the default, which is 1."""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """Plugins that a profile enables and disables at one extension point, or at multiPoint."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[str, ...] = ()

    def over(self, default: PluginSet) -> PluginSet:
        """Return these settings merged over the default ones. A plugin named in both keeps its
        default position and takes the new weight; `*` in `disabled` drops all defaults.
        """
        disabled = (*self.disabled, *default.disabled)
        own = {plugin.name: plugin for plugin in self.enabled}
        kept = (
            ()
            if ALL in disabled
            else tuple(plugin for plugin in default.enabled if plugin.name not in disabled)
        )
        replaced = {plugin.name for plugin in kept} & own.keys()
        merged = [own.get(plugin.name, plugin) for plugin in kept]
        merged += [plugin for plugin in self.enabled if plugin.name not in replaced]
        return PluginSet(tuple(merged), disabled)


DEFAULT_PLUGINS = PluginSet(
    (
        EnabledPlugin("SchedulingGates"),
        EnabledPlugin("PrioritySort"),
        EnabledPlugin("NodeUnschedulable"),
        EnabledPlugin("NodeName"),
        EnabledPlugin("TaintToleration", 3),
        EnabledPlugin("NodeAffinity", 2),
        EnabledPlugin("NodePorts"),
        EnabledPlugin("NodeResourcesFit", 1),
        EnabledPlugin("VolumeRestrictions"),
        EnabledPlugin("NodeVolumeLimits"),
        EnabledPlugin("VolumeBinding"),
        EnabledPlugin("VolumeZone"),
        EnabledPlugin("PodTopologySpread", 2),
        EnabledPlugin("InterPodAffinity", 2),
        EnabledPlugin("DynamicResources", 2),
        EnabledPlugin("DefaultPreemption"),
        EnabledPlugin("NodeResourcesBalancedAllocation", 1),
        EnabledPlugin("ImageLocality", 1),
        EnabledPlugin("DefaultBinder"),
        EnabledPlugin("NodeDeclaredFeatures"),
    )
)


@dataclass(frozen=True, slots=True)
class ProfileConfiguration:
    """Settings of one profile. `plugins` has only what the profile itself names, by point; the
    default plugins are merged in by the methods.
    """

    name: str = DEFAULT_SCHEDULER_NAME
    plugins: Mapping[str, PluginSet] = field(default_factory=dict)
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    percentage: int | None = None

    def names(self) -> list[str]:
        """Return the names of all plugins enabled at any point, without duplicates, in order."""
        sets = [self._multi_point(), *(self.plugins.get(point, PluginSet()) for point in POINTS)]
        return list(dict.fromkeys(plugin.name for one in sets for plugin in one.enabled))

    def at(self, point: str, implements: Callable[[str, str], bool]) -> list[str]:
        """Return the plugins enabled at a point, in calling order. Settings of the point itself
        precede those of multiPoint; `implements` tells for a name and a point whether the class
        overrides it.
        """
        own = self.plugins.get(point, PluginSet())
        named = [plugin.name for plugin in own.enabled]
        if ALL in own.disabled:
            return named
        everywhere = [plugin.name for plugin in self._multi_point().enabled]
        general = [
            name for name in everywhere if implements(name, point) and name not in own.disabled
        ]
        overridden = [name for name in named if name in general]
        rest = [name for name in named if name not in overridden]
        return [*overridden, *(name for name in general if name not in named), *rest]

    def weight(self, name: str) -> int:
        """Return a plugin's score weight: the one at the score point, else that of multiPoint, else
        1.
        """
        for one in (self.plugins.get("score", PluginSet()), self._multi_point()):
            for plugin in one.enabled:
                if plugin.name == name:
                    return plugin.weight or 1
        return 1

    def _multi_point(self) -> PluginSet:
        return self.plugins.get(MULTI_POINT, PluginSet()).over(DEFAULT_PLUGINS)


@dataclass(frozen=True, slots=True)
class ExtenderConfiguration:
    """Settings of one HTTP extender, as in a configuration's `extenders`. An empty verb means that
    the extender is not called for it; `timeout` is in seconds of the wall clock.
    """

    url: str
    filter: str = ""
    prioritize: str = ""
    preempt: str = ""
    bind: str = ""
    weight: int = 1
    timeout: float = 5.0
    node_cache_capable: bool = False
    managed: tuple[str, ...] = ()
    """Extended resources that make a pod interesting to the extender; if empty, all pods are."""
    ignored_by_scheduler: tuple[str, ...] = ()
    """Managed resources that the scheduler's own resource filter ignores."""
    ignorable: bool = False
    https: bool = False
    tls: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """Whole configuration of a scheduler. `percentage` is the share of nodes to find, in percent; 0
    chooses it by the size of the cluster. Back-offs are in seconds of cluster time.
    """

    profiles: tuple[ProfileConfiguration, ...] = (ProfileConfiguration(),)
    extenders: tuple[ExtenderConfiguration, ...] = ()
    percentage: int = 0
    parallelism: int = 16
    initial_backoff: float = 1.0
    longest_backoff: float = 10.0
