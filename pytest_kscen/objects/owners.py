"""Who an object belongs to: what is removed with its owner says so by a reference to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


def owner_reference(owner: Obj) -> Obj:
    """To the one that has made it and sees to it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
