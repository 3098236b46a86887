"""The kinds of bodies that subresources take: decoded like any other, and never stored."""

from __future__ import annotations

from functools import cache

from pytest_kscen.machinery.kinds import Kind
from pytest_kscen.objects.resources import Resource


@cache
def _of_body(group: str, plural: str, name: str) -> Kind:
    from pytest_kscen.machinery.schema.builtin import builtin_schema

    resource = Resource(group, "v1", plural, name)
    return Kind(resource, schema=builtin_schema(resource))


def binding() -> Kind:
    return _of_body("", "bindings", "Binding")


def eviction() -> Kind:
    return _of_body("policy", "evictions", "Eviction")


def scale() -> Kind:
    return _of_body("autoscaling", "scales", "Scale")


def token_request() -> Kind:
    return _of_body("authentication.k8s.io", "tokenrequests", "TokenRequest")
