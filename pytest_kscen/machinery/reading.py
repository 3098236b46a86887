"""get and list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import Answer
from pytest_kscen.machinery.core import key_of
from pytest_kscen.objects.errors import not_found
from pytest_kscen.objects.selectors import predicate

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.objects.resources import Obj


def current(core: Core, request: Request) -> Obj:
    """The object that the request names."""
    obj = core.store.get(key_of(request, request.name))
    if obj is None:
        raise not_found(request.resource, request.name)
    return obj


async def get(core: Core, request: Request) -> Answer:
    core.kind_of(request)
    return Answer(current(core, request))


async def list_(core: Core, request: Request) -> Answer:
    resource = core.kind_of(request).resource
    lets_through = predicate(request.options.labels, request.options.fields)
    found = core.store.all(resource.group, resource.plural, request.namespace)
    items = list(filter(lets_through, found)) if lets_through else list(found)
    return Answer(
        {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(core.store.revision)},
            "items": items,
        }
    )
