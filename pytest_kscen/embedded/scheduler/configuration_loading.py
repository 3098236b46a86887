"""Loading of a KubeSchedulerConfiguration (YAML or JSON), with a list of all its mistakes.

Fields that only concern a scheduler's process (leader election, client, profiling) are accepted and
ignored. Called by the configuration source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.configuration_validation import (
    anything,
    boolean,
    duration,
    integer,
    list_of,
    nonempty_text,
    object_with,
    one_of,
    text,
    validate_arguments,
)
from pytest_kscen.embedded.scheduler.framework.configuration import (
    ALL,
    DEFAULT_SCHEDULER_NAME,
    MULTI_POINT,
    EnabledPlugin,
    ExtenderConfiguration,
    PluginSet,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from pytest_kscen.embedded.scheduler.framework.plugin import POINTS
from pytest_kscen.embedded.scheduler.registry import DEFAULT_PLUGIN_NAMES
from pytest_kscen.objects.arguments import nearest, seconds_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.embedded.scheduler.registry import Registry
    from pytest_kscen.objects.resources import Obj

API_VERSION, KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
POD_GROUP_POINTS = {
    "placementGenerate": "TopologyPlacementGenerator",
    "placementScore": "PodGroupPodsCount",
}
"""Extension points that place groups of pods, and the one plugin that implements each."""
_PLUGIN_SET = object_with(
    {
        "enabled": list_of(
            object_with({"name": nonempty_text, "weight": integer(0)}, needed=("name",))
        ),
        "disabled": list_of(
            object_with({"name": nonempty_text, "weight": anything}, needed=("name",))
        ),
    }
)
_PROFILE = object_with(
    {
        "schedulerName": nonempty_text,
        "percentageOfNodesToScore": integer(0, 100),
        "plugins": object_with(
            dict.fromkeys((MULTI_POINT, *POINTS, *POD_GROUP_POINTS), _PLUGIN_SET)
        ),
        "pluginConfig": list_of(
            object_with({"name": nonempty_text, "args": anything}, needed=("name",))
        ),
    }
)
_TLS_FIELDS = (
    "insecure",
    "serverName",
    "certFile",
    "keyFile",
    "caFile",
    "certData",
    "keyData",
    "caData",
)
_EXTENDER = object_with(
    {
        "urlPrefix": nonempty_text,
        "filterVerb": text,
        "preemptVerb": text,
        "prioritizeVerb": text,
        "weight": integer(1),
        "bindVerb": text,
        "enableHTTPS": boolean,
        "tlsConfig": object_with(dict.fromkeys(_TLS_FIELDS, anything)),
        "httpTimeout": duration,
        "nodeCacheCapable": boolean,
        "managedResources": list_of(
            object_with({"name": nonempty_text, "ignoredByScheduler": boolean}, needed=("name",))
        ),
        "ignorable": boolean,
    },
    needed=("urlPrefix",),
)
_IGNORED_FIELDS = (
    "leaderElection", "clientConnection", "enableProfiling", "enableContentionProfiling",
    "delayCacheUntilActive",
    "healthzBindAddress", "metricsBindAddress", "metadata",
)  # fmt: skip
_CONFIGURATION = object_with(
    {
        "apiVersion": one_of(API_VERSION),
        "kind": one_of(KIND),
        "parallelism": integer(1),
        "percentageOfNodesToScore": integer(0, 100),
        "podInitialBackoffSeconds": integer(1),
        "podMaxBackoffSeconds": integer(1),
        "profiles": list_of(_PROFILE),
        "extenders": list_of(_EXTENDER),
        **dict.fromkeys(_IGNORED_FIELDS, anything),
    },
    needed=("apiVersion", "kind"),
)


class ConfigurationError(ValueError):
    """Mistakes of a configuration, one per line, each starting with the field's path."""


def load_configuration(written: str | Obj, registry: Registry) -> SchedulerConfiguration:
    """Return the configuration of a YAML or JSON text, or of a parsed object. ConfigurationError
    lists all mistakes; plugins are resolved, but not made.
    """
    obj: Any = written
    if isinstance(written, str):
        import yaml

        try:
            obj = yaml.safe_load(written)
        except yaml.YAMLError as error:
            raise ConfigurationError(f"not valid YAML: {error}") from None
    wrong = (
        list(_CONFIGURATION(obj, ""))
        or list(_configuration_errors(obj, registry))
        or list(_point_errors(obj, registry))
    )
    if wrong:
        raise ConfigurationError("\n".join(wrong))
    profiles: list[Obj] = obj.get("profiles") or [{}]
    return SchedulerConfiguration(
        profiles=tuple(map(_profile, profiles)),
        extenders=tuple(
            ExtenderConfiguration(
                url=extender["urlPrefix"],
                filter=extender.get("filterVerb") or "",
                prioritize=extender.get("prioritizeVerb") or "",
                preempt=extender.get("preemptVerb") or "",
                bind=extender.get("bindVerb") or "",
                weight=extender.get("weight") or 1,
                timeout=seconds_of_text(extender.get("httpTimeout") or "5s"),
                node_cache_capable=bool(extender.get("nodeCacheCapable")),
                managed=tuple(one["name"] for one in extender.get("managedResources") or ()),
                ignored_by_scheduler=tuple(
                    one["name"]
                    for one in extender.get("managedResources") or ()
                    if one.get("ignoredByScheduler")
                ),
                ignorable=bool(extender.get("ignorable")),
                https=bool(extender.get("enableHTTPS")),
                tls=extender.get("tlsConfig") or {},
            )
            for extender in obj.get("extenders") or ()
        ),
        percentage=obj.get("percentageOfNodesToScore") or 0,
        parallelism=obj.get("parallelism") or 16,
        initial_backoff=float(obj.get("podInitialBackoffSeconds") or 1),
        longest_backoff=float(obj.get("podMaxBackoffSeconds") or 10),
    )


def _configuration_errors(obj: Obj, registry: Registry) -> Iterator[str]:
    if (obj.get("podMaxBackoffSeconds") or 10) < (obj.get("podInitialBackoffSeconds") or 1):
        yield "podMaxBackoffSeconds: it is less than podInitialBackoffSeconds"
    profiles = obj.get("profiles") or []
    names = [
        profile.get("schedulerName") or (DEFAULT_SCHEDULER_NAME if len(profiles) == 1 else "")
        for profile in profiles
    ]
    for number, name in enumerate(names):
        if not name:
            yield (
                f"profiles[{number}].schedulerName is missing: where there are several "
                "profiles, each needs one"
            )
        elif name in names[:number]:
            yield f"profiles[{number}].schedulerName: {name!r} is the name of another profile"
        yield from _profile_errors(profiles[number], f"profiles[{number}]", registry)
    yield from _extender_errors(obj.get("extenders") or [])


def _point_errors(obj: Obj, registry: Registry) -> Iterator[str]:
    """Yield mistakes of points that need certain plugins; called only if all plugins are known."""
    sorts = []
    for number, profile in enumerate(obj.get("profiles") or ()):
        found = _profile(profile)
        sorts.append(
            found.at("queueSort", lambda name, point: registry.resolve(name).implements(point))
        )
        if len(sorts[-1]) != 1:
            yield (
                f"profiles[{number}]: exactly one queueSort plugin is needed, not {len(sorts[-1])}"
            )
        if not found.at("bind", lambda name, point: registry.resolve(name).implements(point)):
            yield f"profiles[{number}]: at least one bind plugin is needed"
    if any(one != sorts[0] for one in sorts):
        yield "profiles: all must enable the same queueSort plugin"


def _profile_errors(profile: Obj, place: str, registry: Registry) -> Iterator[str]:
    for point, plugins in (profile.get("plugins") or {}).items():
        for what in ("enabled", "disabled"):
            for number, plugin in enumerate((plugins or {}).get(what) or ()):
                if what == "disabled" and plugin["name"] == ALL:
                    continue
                yield from _plugin_errors(
                    plugin["name"], f"{place}.plugins.{point}.{what}[{number}]", registry, point
                )
    seen: set[str] = set()
    for number, one in enumerate(profile.get("pluginConfig") or ()):
        where, name = f"{place}.pluginConfig[{number}]", one["name"]
        if name in seen:
            yield f"{where}: {name!r} is configured twice"
        seen.add(name)
        yield from _plugin_errors(name, where, registry, MULTI_POINT)
        yield from validate_arguments(
            name, one.get("args") or {}, f"{where}.args", own=name not in DEFAULT_PLUGIN_NAMES
        )


def _plugin_errors(name: str, place: str, registry: Registry, point: str) -> Iterator[str]:
    try:
        plugin = registry.resolve(name)
    except ValueError as error:
        yield f"{place}: {error}"
        return
    points = [other for other in POINTS if plugin.implements(other)] + [
        other for other, plugin_name in POD_GROUP_POINTS.items() if plugin_name == name
    ]
    if ".enabled" in place and point not in (MULTI_POINT, *points):
        yield (
            f"{place}: {name} does not implement {point}, but "
            f"{', '.join(points) or 'no extension point'}"
        )


def _extender_errors(extenders: list[Obj]) -> Iterator[str]:
    if sum(bool(one.get("bindVerb")) for one in extenders) > 1:
        yield "extenders: only one of them may have a bindVerb"
    seen: set[str] = set()
    for number, one in enumerate(extenders):
        if one.get("prioritizeVerb") and not one.get("weight"):
            yield f"extenders[{number}].weight is missing: a prioritizeVerb needs one"
        for place, resource in enumerate(one.get("managedResources") or ()):
            name = resource["name"]
            where = f"extenders[{number}].managedResources[{place}].name"
            if "/" not in name or name.startswith(("kubernetes.io/", "requests.")):
                yield f"{where}: {name!r} is not an extended resource{nearest(name, ())}"
            if name in seen:
                yield f"{where}: {name!r} is listed twice"
            seen.add(name)


def _profile(obj: Obj) -> ProfileConfiguration:
    plugins = {
        point: PluginSet(
            tuple(
                EnabledPlugin(one["name"], one.get("weight") or 0)
                for one in settings.get("enabled") or ()
            ),
            tuple(one["name"] for one in settings.get("disabled") or ()),
        )
        for point, settings in (obj.get("plugins") or {}).items()
        if settings
    }
    arguments = {one["name"]: one.get("args") or {} for one in obj.get("pluginConfig") or ()}
    return ProfileConfiguration(
        obj.get("schedulerName") or DEFAULT_SCHEDULER_NAME,
        plugins,
        arguments,
        obj.get("percentageOfNodesToScore"),
    )
