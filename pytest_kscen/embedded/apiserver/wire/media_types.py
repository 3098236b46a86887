"""Which form an answer takes: JSON or YAML, the object itself or a table or the metadata of it;
and which one a body has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from pytest_kscen.objects.errors import NotAcceptable, UnsupportedMediaType

JSON, YAML, ANY = "application/json", "application/yaml", "*/*"
PROTOBUF = "application/vnd.kubernetes.protobuf"
READ = (JSON, YAML, PROTOBUF)
AS_TABLE, AS_PARTIAL, AS_PARTIAL_LIST = (
    "Table",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
)
AS_DISCOVERY = "APIGroupDiscoveryList"
READ_BY_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
BOTH, STREAMED = f"{JSON}, {YAML}", f"{JSON};stream=watch"


class Transforms(NamedTuple):
    """Forms that an answer can be asked `as`."""

    group: str
    names: tuple[str, ...]
    versions: tuple[str, ...]


META = Transforms("meta.k8s.io", (AS_TABLE, AS_PARTIAL, AS_PARTIAL_LIST), ("v1", "v1beta1"))
AGGREGATED = Transforms("apidiscovery.k8s.io", (AS_DISCOVERY,), ("v2",))
PLAIN_ONLY = Transforms("", (), ())


@dataclass(frozen=True, slots=True)
class Offer:
    """What an endpoint can answer in.

    `listed` is what its router says when none of it is wanted.
    """

    listed: str = BOTH
    types: tuple[str, ...] = (JSON, YAML)
    anything: tuple[str, ...] = (ANY,)
    transforms: Transforms | None = META  # None: whatever is asked for is ignored
    routed: bool = True


ONE = Offer()
MANY = Offer(f"{BOTH}, {STREAMED}")
STREAM = Offer(f"{BOTH}, {STREAMED}", (JSON,))
LOG = Offer(f"text/plain, {BOTH}")
CORE_DISCOVERY = Offer(transforms=AGGREGATED)
CORE_RESOURCES = Offer(transforms=PLAIN_ONLY)
GROUPS = Offer(anything=(ANY, "application/*"), transforms=AGGREGATED, routed=False)
GROUP = Offer(anything=(ANY, "application/*"), transforms=PLAIN_ONLY, routed=False)
VERSION = Offer(JSON, (JSON,), transforms=None)


@dataclass(frozen=True, slots=True)
class Media:
    """What was agreed on.

    `transform` is empty for the object as it is; `group` and `version` belong to the transform.
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
def accepted(header: str, offer: Offer = ONE) -> Media:
    """The first of a client's wishes that can be met."""
    if not header.strip():
        return PLAIN
    wishes = [_wish(part) for part in header.split(",")]
    for type_, parameters in wishes:
        if media := _meet(type_, parameters, offer):
            return media
    routes = (*offer.listed.split(", "), *offer.anything, YAML)
    if offer.routed and not any(type_ in routes for type_, _ in wishes):
        raise NotAcceptable(
            f"406: Not Acceptable\n\nAvailable representations: {offer.listed}", details={}
        )
    if offer is VERSION:
        raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {JSON}", details={})
    listed = (
        STREAMED
        if offer is STREAM and not any("as" in parameters for _, parameters in wishes)
        else BOTH
    )
    raise NotAcceptable(f"only the following media types are accepted: {listed}")


def for_refusal(header: str) -> Media:
    """A refusal comes in the form that was asked for, if there is one."""
    try:
        return accepted(header).plain()
    except NotAcceptable:
        return PLAIN


# a query's flag, which may be missing
def is_for_people(pretty: bool | None, agent: str) -> bool:  # noqa: FBT001
    """Whether JSON is indented: when asked for, and else for browsers and tools for the command
    line.
    """
    return agent.startswith(READ_BY_PEOPLE) if pretty is None else pretty


def _wish(part: str) -> tuple[str, dict[str, str]]:
    type_, *parameters = (word.strip() for word in part.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    return type_.lower(), {name.strip(): value.strip() for name, _, value in pairs}


def _meet(type_: str, parameters: dict[str, str], offer: Offer) -> Media | None:
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
    """The form of a request's body; custom kinds have none in protobuf."""
    type_, *parameters = header.split(";")
    type_ = type_.strip().lower() or JSON
    known = (JSON, YAML) if custom else READ
    if type_ in known and all("=" in parameter for parameter in parameters):
        return type_
    listed = ", ".join(READ)
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )
