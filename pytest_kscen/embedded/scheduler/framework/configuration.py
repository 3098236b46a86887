"""A KubeSchedulerConfiguration that has been read: plain data, with the defaults of kube-
scheduler 1.36.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.scheduler.framework.plugin import POINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAME = "default-scheduler"
MULTI_POINT = "multiPoint"
ALL = "*"


class Enabled(NamedTuple):
    name: str
    weight: int = 0
    """0: the default, which is 1."""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """What a profile switches on and off at one point."""

    enabled: tuple[Enabled, ...] = ()
    disabled: tuple[str, ...] = ()

    def over(self, default: PluginSet) -> PluginSet:
        """These settings on top of the default ones: a plugin named in both keeps its place and
        takes the new weight.
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
        Enabled("SchedulingGates"),
        Enabled("PrioritySort"),
        Enabled("NodeUnschedulable"),
        Enabled("NodeName"),
        Enabled("TaintToleration", 3),
        Enabled("NodeAffinity", 2),
        Enabled("NodePorts"),
        Enabled("NodeResourcesFit", 1),
        Enabled("VolumeRestrictions"),
        Enabled("NodeVolumeLimits"),
        Enabled("VolumeBinding"),
        Enabled("VolumeZone"),
        Enabled("PodTopologySpread", 2),
        Enabled("InterPodAffinity", 2),
        Enabled("DynamicResources", 2),
        Enabled("DefaultPreemption"),
        Enabled("NodeResourcesBalancedAllocation", 1),
        Enabled("ImageLocality", 1),
        Enabled("DefaultBinder"),
        Enabled("NodeDeclaredFeatures"),
    )
)


@dataclass(frozen=True, slots=True)
class ProfileConfiguration:
    """One profile. `plugins` is what it says itself, by point; the default ones are underneath."""

    name: str = NAME
    plugins: Mapping[str, PluginSet] = field(default_factory=dict)
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    percentage: int | None = None

    def names(self) -> list[str]:
        """Every plugin that stands anywhere."""
        sets = [self._multi_point(), *(self.plugins.get(point, PluginSet()) for point in POINTS)]
        return list(dict.fromkeys(plugin.name for one in sets for plugin in one.enabled))

    def at(self, point: str, stands_at: Callable[[str, str], bool]) -> list[str]:
        """Who stands at this point, in order.

        What a point itself says goes before what multiPoint says.
        """
        own = self.plugins.get(point, PluginSet())
        named = [plugin.name for plugin in own.enabled]
        if ALL in own.disabled:
            return named
        everywhere = [plugin.name for plugin in self._multi_point().enabled]
        general = [
            name for name in everywhere if stands_at(name, point) and name not in own.disabled
        ]
        overridden = [name for name in named if name in general]
        rest = [name for name in named if name not in overridden]
        return [*overridden, *(name for name in general if name not in named), *rest]

    def weight(self, name: str) -> int:
        """At the score point, or of multiPoint; 1 where none is said."""
        for one in (self.plugins.get("score", PluginSet()), self._multi_point()):
            for plugin in one.enabled:
                if plugin.name == name:
                    return plugin.weight or 1
        return 1

    def _multi_point(self) -> PluginSet:
        return self.plugins.get(MULTI_POINT, PluginSet()).over(DEFAULT_PLUGINS)


@dataclass(frozen=True, slots=True)
class ExtenderConfiguration:
    """Somebody outside who is asked over HTTP."""

    url: str
    filter: str = ""
    prioritize: str = ""
    preempt: str = ""
    bind: str = ""
    weight: int = 1
    timeout: float = 5.0
    node_cache_capable: bool = False
    managed: tuple[str, ...] = ()
    """Only pods that ask for one of these resources are of interest to it; none: all are."""
    ignored_by_scheduler: tuple[str, ...] = ()
    """Those of them that the scheduler's own filter leaves alone."""
    ignorable: bool = False
    https: bool = False
    tls: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The whole. `percentage` 0: as many nodes as the size of the cluster suggests."""

    profiles: tuple[ProfileConfiguration, ...] = (ProfileConfiguration(),)
    extenders: tuple[ExtenderConfiguration, ...] = ()
    percentage: int = 0
    parallelism: int = 16
    initial_backoff: float = 1.0
    longest_backoff: float = 10.0
