"""The form in which an answer's objects go out: as they are, as a table, or as their metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.patching import materialised
from pytest_kscen.machinery.wire.deprecations import definition_of
from pytest_kscen.machinery.wire.media import AS_PARTIAL_LIST, AS_TABLE
from pytest_kscen.machinery.wire.tables import PLAIN, Column, Printer, columns_of, custom_columns, partial
from pytest_kscen.objects.errors import ApiError, NotAcceptable

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Event
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.machinery.wire.media import Media
    from pytest_kscen.objects.resources import Obj


class Shaper:
    """Shapes one answer, or the events of one watch."""

    def __init__(self, core: Core, kind: Kind, media: Media, included: str) -> None:
        self._core = core
        self._kind = kind
        self._media = media
        self._included = included
        self._columns = _columns(core, kind) if media.transform == AS_TABLE else ()
        self._seen = False

    def answer(self, body: Obj) -> Obj:
        if body["kind"] == "Status":
            return body
        if "items" in body and body["kind"].endswith("List"):
            return self._list({**body, "items": list(map(materialised, body["items"]))})
        body = materialised(body)
        match self._media.transform:
            case "":
                return body
            case "Table":
                return self._printer().of_one(body)
        self._check_partial(body["kind"], is_list=False)
        return partial(body, self._media.version)

    def event(self, event: Event) -> Obj:
        if event.type == "ERROR":
            return event.object
        obj = materialised(event.object)
        match self._media.transform:
            case "":
                return obj
            case "Table":
                first, self._seen = not self._seen, True
                return self._printer().of_event(event.type, obj, first=first)
        return partial(obj, self._media.version)

    def _list(self, body: Obj) -> Obj:
        if not self._media.transform:
            return body if self._kind.custom else _typed(body)
        body = {**body, "metadata": {name: value for name, value in body["metadata"].items() if value != ""}}
        match self._media.transform:
            case "Table":
                return self._printer().of_list(body)
        self._check_partial(body["kind"], is_list=True)
        version = self._media.version
        head = {"kind": AS_PARTIAL_LIST, "apiVersion": f"meta.k8s.io/{version}", "metadata": body["metadata"]}
        return {**head, "items": [partial(item, version) for item in body["items"]] or None}

    def _printer(self) -> Printer:
        return Printer(self._columns, self._core.clock.now(), self._included, self._media.version)

    def _check_partial(self, kind: str, *, is_list: bool) -> None:
        wanted, group = self._media.transform, self._kind.resource.group
        if is_list is (wanted == AS_PARTIAL_LIST):
            return
        if self._kind.custom and not is_list:
            raise ApiError("content is not a list")
        what = "is a list" if is_list else "is not a list"
        type_ = "*unstructured.UnstructuredList" if self._kind.custom else f"*{group.partition('.')[0] or 'core'}.{kind}"
        raise NotAcceptable(f"you requested {wanted}, but the requested object {what} ({type_})")


def _typed(body: Obj) -> Obj:
    """In a list of a built-in kind the items do not say what they are: the list does."""
    items = [{name: part for name, part in item.items() if name not in ("kind", "apiVersion")} for item in body["items"]]
    return {**body, "items": items}


def _columns(core: Core, kind: Kind) -> tuple[Column, ...]:
    if not kind.custom:
        return columns_of(kind.resource)
    definition = definition_of(core, kind.resource)
    return custom_columns(definition, kind.resource.version) if definition else PLAIN
