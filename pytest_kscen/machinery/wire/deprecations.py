"""What a client is told when it uses a version that is on its way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.kinds import stability
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS as DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj, Resource

BUILT_IN = {("", "v1", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"}


def definition_of(core: Core, resource: Resource) -> Obj | None:
    """The CustomResourceDefinition behind a custom kind."""
    return core.store.get((DEFINITIONS.group, DEFINITIONS.plural, "", f"{resource.plural}.{resource.group}"))


def deprecations(core: Core, kind: Kind) -> Iterator[str]:
    resource = kind.resource
    if not kind.custom:
        if words := BUILT_IN.get((resource.group, resource.version, resource.plural)):
            yield words
        return
    definition = definition_of(core, resource)
    versions = definition["spec"]["versions"] if definition else []
    for version in versions:
        if version["name"] == resource.version and version.get("deprecated"):
            yield version.get("deprecationWarning") or _by_default(versions, resource)


def _by_default(versions: list[Obj], resource: Resource) -> str:
    better = [
        version["name"]
        for version in versions
        if version["served"] and not version.get("deprecated") and stability(version["name"]) > stability(resource.version)
    ]
    words = f"{resource.api_version} {resource.kind} is deprecated"
    return f"{words}; use {resource.group}/{max(better, key=stability)} {resource.kind}" if better else words
