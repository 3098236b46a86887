"""proxy: what an API server says by itself, before anybody behind it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clusters.conformance.case import case_of
from pytest_kscen.clusters.conformance.chapters.pods import made, pod

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.visitor import Visitor


@case_of(
    [
        ("too many parts", "a:b:c:d", 400, "BadRequest", 'invalid service request "a:b:c:d"'),
        ("a strange scheme", "ftp:bare:80", 400, "BadRequest", 'invalid service request "ftp:bare:80"'),
        ("nobody", "nobody", 404, "NotFound", 'services "nobody" not found'),
        ("a port of nobody", "http:nobody:80", 404, "NotFound", 'services "nobody" not found'),
        ("no such port", "bare:81", 503, "ServiceUnavailable", 'no service port 81 found for service "bare"'),
        ("no endpoints", "bare:80", 404, "NotFound", 'services "bare" not found'),
    ]
)
def a_service(visitor: Visitor, name: str, status: int, reason: str, message: str) -> None:
    visitor.post("services", {"metadata": {"name": "bare"}, "spec": {"ports": [{"port": 80}]}}).ok(201)
    visitor.get(f"services/{name}/proxy/").refused(status, reason, message)


@case_of(
    [
        ("too many parts", "a:b:c:d", 400, "BadRequest", 'invalid pod request "a:b:c:d"'),
        ("nobody", "nobody:80", 404, "NotFound", 'pods "nobody" not found'),
        ("without an address", "p:80", 400, "BadRequest", "address not allowed"),
    ]
)
def a_pod(visitor: Visitor, name: str, status: int, reason: str, message: str) -> None:
    made(visitor, pod())
    visitor.get(f"pods/{name}/proxy/").refused(status, reason, message)
