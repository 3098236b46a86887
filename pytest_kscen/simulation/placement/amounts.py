"""Amounts of resources as whole numbers: thousandths of a CPU, bytes, and pieces of anything else."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pytest_kscen.objects.quantities import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

Amounts = dict[str, int]


@functools.lru_cache(maxsize=4096)
def amount(resource: str, quantity: str | float) -> int:
    """A quantity in the resource's smallest unit, rounded up."""
    found = parse(quantity)
    return found.milli if resource == "cpu" else found.value


def amounts(quantities: Mapping[str, str] | None) -> Amounts:
    """A resource list."""
    return {resource: amount(resource, quantity) for resource, quantity in (quantities or {}).items()}


def plus(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def most(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    """The larger of the two, resource by resource."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
