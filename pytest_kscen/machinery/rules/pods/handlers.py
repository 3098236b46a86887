"""What the kubelet does to ask or to tell a container: probes and lifecycle hooks, each by one handler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.rules.checks import Causes, named, none_negative, one_of, port
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

TIMES = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def probes(path: str, container: Obj, grace: int | None) -> Causes:
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if kind in container:
            yield from _probe(f"{path}.{kind}", kind, container[kind], grace)


def _probe(path: str, kind: str, probe: Obj, grace: int | None) -> Causes:
    yield from handler(path, probe, grace)
    yield from none_negative(path, probe, TIMES)
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        yield Cause.invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0")
    if kind == "readinessProbe":
        if seconds is not None:
            yield Cause.invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes")
    elif probe.get("successThreshold", 0) != 1:
        yield Cause.invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1")


def lifecycle(path: str, given: Obj, grace: int | None) -> Causes:
    for hook in ("postStart", "preStop"):
        if hook in given:
            yield from handler(f"{path}.{hook}", given[hook], grace)


def handler(path: str, given: Obj, grace: int | None) -> Causes:
    """Exactly one way."""
    found = [kind for kind in HANDLERS if kind in given]
    for place, kind in enumerate(found):
        if place:
            yield Cause.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
        else:
            yield from HANDLERS[kind](f"{path}.{kind}", given[kind], grace)
    if not found:
        yield Cause.required(path, "must specify a handler type")


def _execute(path: str, given: Obj, _: int | None) -> Causes:
    if not given.get("command"):
        yield Cause.required(f"{path}.command")


def _get(path: str, given: Obj, _: int | None) -> Causes:
    if not given.get("path"):
        yield Cause.required(f"{path}.path")
    yield from port(f"{path}.port", given.get("port", 0))
    yield from one_of(f"{path}.scheme", given.get("scheme", ""), ("HTTP", "HTTPS"))
    for header in given.get("httpHeaders") or ():
        yield from named(f"{path}.httpHeaders", header.get("name", ""), names.http_header)


def _connect(path: str, given: Obj, _: int | None) -> Causes:
    yield from port(f"{path}.port", given.get("port", 0))


def _sleep(path: str, given: Obj, grace: int | None) -> Causes:
    seconds = given.get("seconds", 0)
    if grace is not None and not 0 <= seconds <= grace:
        why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        yield Cause.invalid(path, seconds, why)


HANDLERS = {"exec": _execute, "httpGet": _get, "tcpSocket": _connect, "grpc": _connect, "sleep": _sleep}
