"""Content negotiation: the form of an answer, and the type of a request's body.

Answers are JSON or YAML; an object, a table, or metadata only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from pytest_kscen.objects.errors import NotAcceptable, UnsupportedMediaType

JSON, YAML, ANY = "application/json", "application/yaml", "*/*"
PROTOBUF = "application/vnd.kubernetes.protobuf"
BODY_TYPES = (JSON, YAML, PROTOBUF)
AS_TABLE, AS_PARTIAL, AS_PARTIAL_LIST = (
    "Table",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
)
AS_DISCOVERY = "APIGroupDiscoveryList"
PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")
OBJECT_TYPES, STREAM_TYPE = f"{JSON}, {YAML}", f"{JSON};stream=watch"


class Transforms(NamedTuple):
    """Transformations that the `as` parameter of Accept may request."""

    group: str
    names: tuple[str, ...]
    versions: tuple[str, ...]


META = Transforms("meta.k8s.io", (AS_TABLE, AS_PARTIAL, AS_PARTIAL_LIST), ("v1", "v1beta1"))
AGGREGATED = Transforms("apidiscovery.k8s.io", (AS_DISCOVERY,), ("v2",))
PLAIN_ONLY = Transforms("", (), ())


@dataclass(frozen=True, slots=True)
class Offer:
    """Media types of one endpoint.

    `listed` is the router's list of types in its refusal. `anything` holds the wildcards that it
    accepts.
    """

    listed: str = OBJECT_TYPES
    types: tuple[str, ...] = (JSON, YAML)
    anything: tuple[str, ...] = (ANY,)
    transforms: Transforms | None = META  # None: the parameter is ignored
    routed: bool = True


OBJECT_OFFER = Offer()
LIST_OFFER = Offer(f"{OBJECT_TYPES}, {STREAM_TYPE}")
WATCH_OFFER = Offer(f"{OBJECT_TYPES}, {STREAM_TYPE}", (JSON,))
LOG_OFFER = Offer(f"text/plain, {OBJECT_TYPES}")
CORE_DISCOVERY = Offer(transforms=AGGREGATED)
CORE_RESOURCES = Offer(transforms=PLAIN_ONLY)
GROUPS = Offer(anything=(ANY, "application/*"), transforms=AGGREGATED, routed=False)
GROUP = Offer(anything=(ANY, "application/*"), transforms=PLAIN_ONLY, routed=False)
VERSION = Offer(JSON, (JSON,), transforms=None)


@dataclass(frozen=True, slots=True)
class Media:
    """Result of a negotiation.

    `transform` is empty for the object itself; `group` and `version` belong to the transform.
    """

    type: str = JSON
    transform: str = ""
    group: str = ""
    version: str = ""
    pretty: bool = False

    @property
    def content_type(self) -> str:
        if self.transform == AS_DISCOVERY:
            return f"{self.type};g={self.group};v={self.version};as={self.transform}"
        return self.type

    def plain(self) -> Media:
        return replace(self, transform="")


PLAIN = Media()


@lru_cache(maxsize=512)
def negotiate(header: str, offer: Offer = OBJECT_OFFER) -> Media:
    """Return the first type in an Accept header that the offer meets; raises NotAcceptable."""
    if not header.strip():
        return PLAIN
    accepted = []
    for part in header.split(","):
        type_, *words = (word.strip() for word in part.split(";"))
        pairs = (word.partition("=") for word in words)
        parameters = {name.strip(): value.strip() for name, _, value in pairs}
        accepted.append((type_.lower(), parameters))
    for type_, parameters in accepted:
        if media := _match_offer(type_, parameters, offer):
            return media
    routes = (*offer.listed.split(", "), *offer.anything, YAML)
    if offer.routed and not any(type_ in routes for type_, _ in accepted):
        raise NotAcceptable(
            f"406: Not Acceptable\n\nAvailable representations: {offer.listed}", details={}
        )
    if offer is VERSION:
        raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {JSON}", details={})
    listed = (
        STREAM_TYPE
        if offer is WATCH_OFFER and not any("as" in parameters for _, parameters in accepted)
        else OBJECT_TYPES
    )
    raise NotAcceptable(f"only the following media types are accepted: {listed}")


def refusal_media(header: str) -> Media:
    """Return the media type of a refusal: the accepted one without transform, or JSON."""
    try:
        return negotiate(header).plain()
    except NotAcceptable:
        return PLAIN


# `pretty` is a query flag that may be missing.
def is_pretty(pretty: bool | None, agent: str) -> bool:  # noqa: FBT001
    """Return True if JSON is indented: on request, or by default for browsers and command-line
    tools.
    """
    return agent.startswith(PRETTY_AGENTS) if pretty is None else pretty


def _match_offer(type_: str, parameters: dict[str, str], offer: Offer) -> Media | None:
    if type_ in offer.anything:
        type_ = JSON
    if type_ not in offer.types:
        return None
    transform = parameters.get("as")
    if not transform or offer.transforms is None:
        return Media(type_, pretty=parameters.get("pretty") == "1")
    group, version = parameters.get("g", ""), parameters.get("v", "")
    known = offer.transforms
    if transform in known.names and version in known.versions and group == known.group:
        return Media(type_, transform, group, version)
    return None


def body_type(header: str, *, custom: bool) -> str:
    """Return the type of a request's body; custom kinds have no protobuf form."""
    type_, *parameters = header.split(";")
    type_ = type_.strip().lower() or JSON
    known = (JSON, YAML) if custom else BODY_TYPES
    if type_ in known and all("=" in parameter for parameter in parameters):
        return type_
    listed = ", ".join(BODY_TYPES)
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )
