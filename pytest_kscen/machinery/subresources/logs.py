"""log: what a container has written, read from its kubelet; what is wrong with the question is said without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import Answer
from pytest_kscen.machinery.reading import current
from pytest_kscen.objects.errors import BadRequest, Cause, ServiceUnavailable, invalid, quoted
from pytest_kscen.objects.resources import Obj, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind

OPTIONS = Resource("", "v1", "", "PodLogOptions")
LISTS = (("containers", ", choose one of: "), ("initContainers", " or one of the init containers: "),
         ("ephemeralContainers", " or one of the ephemeral containers: "))  # fmt: skip
LEAST = {"tailLines": (0, "must be greater than or equal to 0"), "sinceSeconds": (1, "must be greater than 0"),
         "limitBytes": (1, "must be greater than 0")}  # fmt: skip


async def read(core: Core, kind: Kind, request: Request) -> Answer:
    options = dict(request.options.extra)
    if causes := list(_wrong(options)):
        raise invalid(OPTIONS, request.name, causes)
    pod = current(core, kind, request)
    container = container_of(pod, options.get("container", ""))
    if not pod["spec"].get("nodeName"):
        return Answer("", 204)
    if core.logs is None:
        raise ServiceUnavailable(f"no kubelet of this cluster keeps logs: the pod {request.name} has none to read")
    if options.get("follow") in ("true", "1"):
        return Answer(core.logs.follow(request.namespace, request.name, container, options))
    return Answer(await core.logs.read(request.namespace, request.name, container, options))


def _wrong(options: Mapping[str, str]) -> Iterator[Cause]:
    for name, (least, why) in LEAST.items():
        if name in options and (value := _whole(options[name])) < least:
            yield Cause.invalid(name, value, why)
    if "sinceSeconds" in options and "sinceTime" in options:
        yield Cause.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified")
    if options.get("stream"):
        yield Cause.forbidden("stream", "may not be specified")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadRequest(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax") from None


def container_of(pod: Obj, asked: str) -> str:
    """The container that is meant; the only one of a pod need not be named."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    found = {which: [each["name"] for each in spec.get(which) or ()] for which, _ in LISTS}
    if asked:
        if not any(asked in names for names in found.values()):
            raise BadRequest(f"container {asked} is not valid for pod {name}")
        return asked
    if [len(names) for names in found.values()] == [1, 0, 0]:
        return str(found["containers"][0])
    choice = "".join(f"{words}[{' '.join(found[which])}]" for which, words in LISTS if found[which])
    raise BadRequest(f"a container name must be specified for pod {name}{choice}")
