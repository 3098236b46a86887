"""get and list: from now, or from a revision of the past that the history still reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.requests import Answer
from pytest_kscen.machinery.core import key_of
from pytest_kscen.machinery.paging import page_of, version_in
from pytest_kscen.machinery.selecting import selection_of
from pytest_kscen.objects.errors import ApiError, BadRequest, ServerTimeout, not_found

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.machinery.selecting import Selection
    from pytest_kscen.objects.resources import Obj


def current(core: Core, kind: Kind, request: Request) -> Obj:
    """The object that the request names, as it is stored."""
    obj = core.store.get(key_of(kind, request, request.name))
    if obj is None:
        raise not_found(kind.resource, request.name)
    return obj


async def get(core: Core, kind: Kind, request: Request) -> Answer:
    if request.options.resource_version:
        try:
            refuse_future(core, version_in(request.options.resource_version))
        except ValueError as error:
            raise ApiError(str(error)) from None
    return Answer(kind.shown(current(core, kind, request)))


async def list_(core: Core, kind: Kind, request: Request) -> Answer:
    options = request.options
    selection = selection_of(kind, request)
    try:
        page = page_of(core.store, kind, options, selection.namespace)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    refuse_future(core, page.revision)
    if selection.is_of_one:
        page = replace(page, limit=0)
    if page.revision == core.store.revision and not page.limit and not page.after:
        return Answer(listing(kind, list(_now(core, kind, selection)), page.revision))
    items, more = page.read(core.store, selection)
    return Answer(listing(kind, items, page.revision, **more))


def _now(core: Core, kind: Kind, selection: Selection) -> Iterable[Obj]:
    """All that is there now."""
    group, plural = kind.home
    if selection.is_of_one:
        obj = core.store.get((group, plural, selection.namespace, selection.name))
        return [obj] if obj and selection.takes(obj) else []
    found = core.store.all(group, plural, selection.namespace)
    return filter(selection.lets_through, found) if selection.lets_through else found


def listing(kind: Kind, items: list[Obj], revision: int, **more: Any) -> Obj:
    if kind.custom or kind.conversion:
        items = [kind.shown(item) for item in items]
    if kind.custom:
        more = {"continue": "", **more}
    return {
        "kind": f"{kind.resource.kind}List",
        "apiVersion": kind.api_version,
        "metadata": {"resourceVersion": str(revision), **more},
        "items": items,
    }


def refuse_future(core: Core, revision: int) -> None:
    """Kubernetes waits a few seconds for a revision that is not there yet; here nothing is ever on its way."""
    if revision > core.store.revision:
        raise too_large(revision, core.store.revision)


def too_large(revision: int, now: int) -> ServerTimeout:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {revision}, current: {now}"
    return ServerTimeout(message, details={"causes": causes, "retryAfterSeconds": 1})
