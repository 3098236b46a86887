"""Handler tables for subresources and for resources that are answered but never stored.

Called by the server for a kind's first request of each verb.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.subresources import pods, proxy, reviews, scale
from pytest_kscen.embedded.apiserver.subresources import reviews as tokens
from pytest_kscen.embedded.apiserver.verbs import reading, updating
from pytest_kscen.objects.errors import MethodNotAllowed, NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Answer, Request

    Handler = Callable[[Core, Kind, Request], Awaitable[Answer]]

OBJECT_HANDLERS: dict[str, Handler] = {
    "get": reading.get,
    "update": updating.update,
    "patch": updating.patch,
}
SUBRESOURCE_HANDLERS: dict[str, dict[str, Handler]] = {
    "scale": {"get": scale.get, "update": scale.update, "patch": scale.patch},
    "binding": {"create": pods.bind},
    "eviction": {"create": pods.evict},
    "log": {"get": pods.read_log},
    "token": {"create": tokens.issue_token},
    "exec": dict.fromkeys(("get", "create"), pods.refuse_upgrade),
    "attach": dict.fromkeys(("get", "create"), pods.refuse_upgrade),
    "portforward": dict.fromkeys(("get", "create"), pods.refuse_upgrade),
    "proxy": dict.fromkeys(("get", "create", "update", "patch", "delete"), proxy.proxy),
}
UNSTORED_HANDLERS: dict[tuple[str, str], dict[str, Handler]] = {
    ("", "bindings"): {"create": pods.bind_by_body},
    ("", "componentstatuses"): {
        "get": reviews.get_component_status,
        "list": reviews.list_component_statuses,
    },
    ("authentication.k8s.io", "selfsubjectreviews"): {"create": reviews.review_self},
    ("authentication.k8s.io", "tokenreviews"): {"create": reviews.review_token},
    ("authorization.k8s.io", "localsubjectaccessreviews"): {"create": reviews.review_access},
    ("authorization.k8s.io", "selfsubjectaccessreviews"): {"create": reviews.review_access},
    ("authorization.k8s.io", "selfsubjectrulesreviews"): {"create": reviews.review_rules},
    ("authorization.k8s.io", "subjectaccessreviews"): {"create": reviews.review_access},
}


def handler_of(kind: Kind, request: Request) -> Handler:
    part = kind.subresources.get(request.subresource)
    if part is None:
        raise NotFound("the server could not find the requested resource", details={})
    handler = SUBRESOURCE_HANDLERS.get(request.subresource, OBJECT_HANDLERS).get(request.verb)
    if handler is None or request.verb not in part.verbs:
        raise MethodNotAllowed(
            "the server does not allow this method on the requested resource", details={}
        )
    return handler


def unstored_handler(kind: Kind, request: Request) -> Handler:
    return UNSTORED_HANDLERS[kind.home][request.verb]
