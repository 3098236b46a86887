"""A KubeSchedulerConfiguration as people write it (YAML or JSON) becomes a Configuration; or all
that is wrong with it is said.

What only concerns a real scheduler's process (leader election, its client, profiling) is let
through and means nothing here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.configuration_validation import (
    anything,
    duration,
    fields,
    filled,
    judge_arguments,
    one_of,
    several,
    text,
    truth,
    whole,
)
from pytest_kscen.embedded.scheduler.framework.configuration import (
    ALL,
    MULTI_POINT,
    NAME,
    Configuration,
    Enabled,
    ExtenderConfiguration,
    PluginSet,
    ProfileConfiguration,
)
from pytest_kscen.embedded.scheduler.framework.plugin import POINTS
from pytest_kscen.embedded.scheduler.registry import DEFAULT
from pytest_kscen.objects.arguments import nearest, seconds_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.embedded.scheduler.registry import Registry
    from pytest_kscen.objects.resources import Obj

API_VERSION, KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
OF_GROUPS = {
    "placementGenerate": "TopologyPlacementGenerator",
    "placementScore": "PodGroupPodsCount",
}
"""Points at which groups of pods are placed, and who stands there."""
_PLUGINS = fields(
    {
        "enabled": several(fields({"name": filled, "weight": whole(0)}, needed=("name",))),
        "disabled": several(fields({"name": filled, "weight": anything}, needed=("name",))),
    }
)
_PROFILE = fields(
    {
        "schedulerName": filled,
        "percentageOfNodesToScore": whole(0, 100),
        "plugins": fields(dict.fromkeys((MULTI_POINT, *POINTS, *OF_GROUPS), _PLUGINS)),
        "pluginConfig": several(fields({"name": filled, "args": anything}, needed=("name",))),
    }
)
_TLS = ("insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData")
_EXTENDER = fields(
    {
        "urlPrefix": filled,
        "filterVerb": text,
        "preemptVerb": text,
        "prioritizeVerb": text,
        "weight": whole(1),
        "bindVerb": text,
        "enableHTTPS": truth,
        "tlsConfig": fields(dict.fromkeys(_TLS, anything)),
        "httpTimeout": duration,
        "nodeCacheCapable": truth,
        "managedResources": several(
            fields({"name": filled, "ignoredByScheduler": truth}, needed=("name",))
        ),
        "ignorable": truth,
    },
    needed=("urlPrefix",),
)
_PROCESS = (
    "leaderElection", "clientConnection", "enableProfiling", "enableContentionProfiling",
    "delayCacheUntilActive",
    "healthzBindAddress", "metricsBindAddress", "metadata",
)  # fmt: skip
_CONFIGURATION = fields(
    {
        "apiVersion": one_of(API_VERSION),
        "kind": one_of(KIND),
        "parallelism": whole(1),
        "percentageOfNodesToScore": whole(0, 100),
        "podInitialBackoffSeconds": whole(1),
        "podMaxBackoffSeconds": whole(1),
        "profiles": several(_PROFILE),
        "extenders": several(_EXTENDER),
        **dict.fromkeys(_PROCESS, anything),
    },
    needed=("apiVersion", "kind"),
)


class ConfigurationError(ValueError):
    """What is wrong with a configuration: one line for each mistake."""


def read(written: str | Obj, registry: Registry) -> Configuration:
    """The configuration that this says."""
    obj: Any = _parsed(written) if isinstance(written, str) else written
    wrong = list(_CONFIGURATION(obj, ""))
    if not wrong:
        wrong = list(_mistakes(obj, registry)) or list(_point_mistakes(obj, registry))
    if wrong:
        raise ConfigurationError("\n".join(wrong))
    profiles: list[Obj] = obj.get("profiles") or [{}]
    return Configuration(
        profiles=tuple(map(_profile, profiles)),
        extenders=tuple(_extender(one) for one in obj.get("extenders") or ()),
        percentage=obj.get("percentageOfNodesToScore") or 0,
        parallelism=obj.get("parallelism") or 16,
        initial_backoff=float(obj.get("podInitialBackoffSeconds") or 1),
        longest_backoff=float(obj.get("podMaxBackoffSeconds") or 10),
    )


def _parsed(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"this is no YAML: {error}") from None


# --- what no field can know by itself ---


def _mistakes(obj: Obj, registry: Registry) -> Iterator[str]:
    if (obj.get("podMaxBackoffSeconds") or 10) < (obj.get("podInitialBackoffSeconds") or 1):
        yield "podMaxBackoffSeconds: it is less than podInitialBackoffSeconds"
    profiles = obj.get("profiles") or []
    names = [
        profile.get("schedulerName") or (NAME if len(profiles) == 1 else "") for profile in profiles
    ]
    for number, name in enumerate(names):
        if not name:
            yield (
                f"profiles[{number}].schedulerName is missing: where there are several "
                "profiles, each needs one"
            )
        elif name in names[:number]:
            yield f"profiles[{number}].schedulerName: {name!r} is the name of another profile"
        yield from _profile_mistakes(profiles[number], f"profiles[{number}]", registry)
    yield from _extender_mistakes(obj.get("extenders") or [])


def _point_mistakes(obj: Obj, registry: Registry) -> Iterator[str]:
    """Of profiles whose plugins are all known."""
    sorts = []
    for number, profile in enumerate(obj.get("profiles") or ()):
        found = _profile(profile)
        sorts.append(
            found.at("queueSort", lambda name, point: registry.resolve(name).stands_at(point))
        )
        if len(sorts[-1]) != 1:
            yield (
                f"profiles[{number}]: exactly one queueSort plugin is needed, not {len(sorts[-1])}"
            )
        if not found.at("bind", lambda name, point: registry.resolve(name).stands_at(point)):
            yield f"profiles[{number}]: at least one bind plugin is needed"
    if any(one != sorts[0] for one in sorts):
        yield "profiles: all need the same queueSort plugin"


def _profile_mistakes(profile: Obj, place: str, registry: Registry) -> Iterator[str]:
    for point, plugins in (profile.get("plugins") or {}).items():
        for what in ("enabled", "disabled"):
            for number, plugin in enumerate((plugins or {}).get(what) or ()):
                if what == "disabled" and plugin["name"] == ALL:
                    continue
                yield from _plugin_mistakes(
                    plugin["name"], f"{place}.plugins.{point}.{what}[{number}]", registry, point
                )
    seen: set[str] = set()
    for number, one in enumerate(profile.get("pluginConfig") or ()):
        where, name = f"{place}.pluginConfig[{number}]", one["name"]
        if name in seen:
            yield f"{where}: {name!r} has been configured already"
        seen.add(name)
        yield from _plugin_mistakes(name, where, registry, MULTI_POINT)
        yield from judge_arguments(
            name, one.get("args") or {}, f"{where}.args", own=name not in DEFAULT
        )


def _plugin_mistakes(name: str, place: str, registry: Registry, point: str) -> Iterator[str]:
    try:
        plugin = registry.resolve(name)
    except ValueError as error:
        yield f"{place}: {error}"
        return
    points = [other for other in POINTS if plugin.stands_at(other)] + [
        other for other, who in OF_GROUPS.items() if who == name
    ]
    if ".enabled" in place and point not in (MULTI_POINT, *points):
        yield (
            f"{place}: {name} does not stand at {point}, but at "
            f"{', '.join(points) or 'no point at all'}"
        )


def _extender_mistakes(extenders: list[Obj]) -> Iterator[str]:
    if sum(bool(one.get("bindVerb")) for one in extenders) > 1:
        yield "extenders: only one of them can have a bindVerb"
    seen: set[str] = set()
    for number, one in enumerate(extenders):
        if one.get("prioritizeVerb") and not one.get("weight"):
            yield f"extenders[{number}].weight is missing: a prioritizeVerb needs one"
        for place, resource in enumerate(one.get("managedResources") or ()):
            name = resource["name"]
            where = f"extenders[{number}].managedResources[{place}].name"
            if "/" not in name or name.startswith(("kubernetes.io/", "requests.")):
                yield f"{where}: {name!r} is no extended resource{nearest(name, ())}"
            if name in seen:
                yield f"{where}: {name!r} is managed already"
            seen.add(name)


# --- what is well formed ---


def _profile(obj: Obj) -> ProfileConfiguration:
    plugins = {point: _set(one) for point, one in (obj.get("plugins") or {}).items() if one}
    arguments = {one["name"]: one.get("args") or {} for one in obj.get("pluginConfig") or ()}
    return ProfileConfiguration(
        obj.get("schedulerName") or NAME, plugins, arguments, obj.get("percentageOfNodesToScore")
    )


def _set(obj: Obj) -> PluginSet:
    enabled = tuple(
        Enabled(one["name"], one.get("weight") or 0) for one in obj.get("enabled") or ()
    )
    return PluginSet(enabled, tuple(one["name"] for one in obj.get("disabled") or ()))


def _extender(obj: Obj) -> ExtenderConfiguration:
    managed = obj.get("managedResources") or ()
    return ExtenderConfiguration(
        url=obj["urlPrefix"],
        filter=obj.get("filterVerb") or "",
        prioritize=obj.get("prioritizeVerb") or "",
        preempt=obj.get("preemptVerb") or "",
        bind=obj.get("bindVerb") or "",
        weight=obj.get("weight") or 1,
        timeout=seconds_of_text(obj["httpTimeout"]) if obj.get("httpTimeout") else 5.0,
        node_cache_capable=bool(obj.get("nodeCacheCapable")),
        managed=tuple(one["name"] for one in managed),
        ignored_by_scheduler=tuple(one["name"] for one in managed if one.get("ignoredByScheduler")),
        ignorable=bool(obj.get("ignorable")),
        https=bool(obj.get("enableHTTPS")),
        tls=obj.get("tlsConfig") or {},
    )
