"""delete and deletecollection: an object goes at once, or is marked and goes when its last finalizer does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import DEFAULTS, Answer
from pytest_kscen.machinery.admission import Review
from pytest_kscen.machinery.core import key_of
from pytest_kscen.machinery.reading import current, list_

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core


async def delete(core: Core, request: Request) -> Answer:
    core.kind_of(request)
    old = current(core, request)
    await core.admission.validate(Review("DELETE", request, core, None, old))
    key = key_of(request, request.name)
    if request.options.dry_run:
        return Answer(old)
    if not old["metadata"].get("finalizers"):
        return Answer(core.store.remove(key))
    if old["metadata"].get("deletionTimestamp"):
        return Answer(old)
    metadata = {**old["metadata"], "deletionTimestamp": core.now(), "deletionGracePeriodSeconds": 0}
    return Answer(core.store.commit(key, {**old, "metadata": metadata}))


async def delete_collection(core: Core, request: Request) -> Answer:
    listing = (await list_(core, replace(request, verb="list"))).body
    for item in listing["items"]:
        name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
        options = replace(request.options, labels="", fields="") if request.options is not DEFAULTS else DEFAULTS
        await delete(core, replace(request, verb="delete", name=name, namespace=namespace, options=options))
    return Answer(listing)
