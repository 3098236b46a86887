"""Which form an answer takes: JSON or YAML, the object itself or a table or the metadata of it; and which one a body has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from pytest_kscen.objects.errors import NotAcceptable, UnsupportedMediaType

JSON, YAML = "application/json", "application/yaml"
AS_TABLE, AS_PARTIAL, AS_PARTIAL_LIST = "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
TRANSFORMS = (AS_TABLE, AS_PARTIAL, AS_PARTIAL_LIST)
META_VERSIONS = ("v1", "v1beta1")
DISCOVERY, DISCOVERY_VERSIONS = "APIGroupDiscoveryList", ("v2", "v2beta1")
OFFERED = "application/json, application/yaml"
OFFERED_STREAMS = "application/json;stream=watch"


@dataclass(frozen=True, slots=True)
class Media:
    """What was agreed on. `transform` is empty for the object as it is; `version` belongs to the transform."""

    type: str = JSON
    transform: str = ""
    group: str = ""
    version: str = ""
    pretty: bool = False

    @property
    def content_type(self) -> str:
        if self.transform == DISCOVERY:
            return f"{self.type};g={self.group};v={self.version};as={self.transform}"
        return self.type

    def plain(self) -> Media:
        return replace(self, transform="")


PLAIN = Media()


@lru_cache(maxsize=512)
def accepted(header: str, *, watch: bool = False, discovery: bool = False) -> Media:
    """The first of a client's wishes that can be met."""
    if not header.strip():
        return PLAIN
    wishes = [_wish(part) for part in header.split(",")]
    met = [media for type_, parameters in wishes if (media := _meet(type_, parameters, watch=watch, discovery=discovery))]
    if met:
        return met[0]
    if any(type_ in (JSON, YAML, "*/*") for type_, _ in wishes):
        offered = OFFERED_STREAMS if watch else OFFERED
        raise NotAcceptable(f"only the following media types are accepted: {offered}")
    message = f"406: Not Acceptable\n\nAvailable representations: {OFFERED}, {OFFERED_STREAMS}"
    raise NotAcceptable(message, details={})


def _wish(part: str) -> tuple[str, dict[str, str]]:
    type_, *parameters = (word.strip() for word in part.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    return type_.lower(), {name.strip(): value.strip() for name, _, value in pairs}


def _meet(type_: str, parameters: dict[str, str], *, watch: bool, discovery: bool) -> Media | None:
    if type_ not in (JSON, "*/*", YAML) or (watch and type_ == YAML):
        return None
    type_ = JSON if type_ == "*/*" else type_
    pretty = parameters.get("pretty") == "1"
    transform = parameters.get("as")
    if not transform:
        return Media(type_, pretty=pretty)
    group, version = parameters.get("g", ""), parameters.get("v", "")
    known, versions, home = (
        ((DISCOVERY,), DISCOVERY_VERSIONS, "apidiscovery.k8s.io") if discovery else (TRANSFORMS, META_VERSIONS, "meta.k8s.io")
    )
    if transform in known and version in versions and group == home:
        return Media(type_, transform, group, version, pretty)
    return None


def body_type(header: str) -> str:
    """The form of a request's body."""
    type_ = header.partition(";")[0].strip().lower()
    if type_ in ("", JSON):
        return JSON
    if type_ == YAML:
        return YAML
    message = f"the body of the request was in an unknown format - accepted media types include: {OFFERED}"
    raise UnsupportedMediaType(message)
