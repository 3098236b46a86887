"""Where etcd would have an object: only messages tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import conflict

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj

ODD = {
    ("", "nodes"): "minions",
    ("", "services"): "services/specs",
    ("", "endpoints"): "services/endpoints",
    ("", "replicationcontrollers"): "controllers",
    ("networking.k8s.io", "ingresses"): "ingress",
}
WITH_GROUP = {"apiextensions.k8s.io", "apiregistration.k8s.io"}


def path_of(kind: Kind, request: Request) -> str:
    group, plural = kind.home
    root = "" if request.options.dry_run else "/registry"
    folder = f"{group}/{plural}" if kind.custom or group in WITH_GROUP else ODD.get(kind.home, plural)
    return "/".join([root, folder, *(part for part in (request.namespace, request.name) if part)])


def refuse_other_uid(kind: Kind, request: Request, new: Obj, old: Obj | None) -> None:
    """An update that names a uid is meant for that object alone."""
    uid, there = new.get("uid"), old["metadata"]["uid"] if old else ""
    if uid and uid != there:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {there}"
        where = f"Key: {path_of(kind, request)}, ResourceVersion: 0, AdditionalErrorMsg"
        raise conflict(kind.resource, request.name, f"StorageError: invalid object, Code: 4, {where}: {why}")
