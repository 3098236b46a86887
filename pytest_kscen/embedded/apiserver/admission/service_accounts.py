"""ServiceAccount plugin: set a pod's account and mount its token unless disabled.

The account `default` is created a moment after its namespace. A pod created before it uses an empty
account here. Any other account must exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.embedded.apiserver.admission.chain import Review
    from pytest_kscen.objects.resources import Obj

MIRROR = "kubernetes.io/config.mirror"
ENFORCED = "kubernetes.io/enforce-mountable-secrets"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # where pods find it
# seconds: one hour and the 7 seconds by which Kubernetes recognizes such tokens
TOKEN_SECONDS = 3607
NAMESPACE = {
    "path": "namespace",
    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
}
SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {"downwardAPI": {"items": [NAMESPACE]}},
]
CONTAINERS = ("initContainers", "containers")


def set_service_account(review: Review) -> None:
    assert review.new is not None
    if MIRROR in (review.new["metadata"].get("annotations") or {}):
        return
    spec = dict(review.new["spec"])
    name = spec.get("serviceAccountName") or "default"
    account = _account(review, name)
    spec |= {"serviceAccountName": name, "serviceAccount": name}
    stated = (each.get("automountServiceAccountToken") for each in (spec, account))
    mounts_token = next((value for value in stated if value is not None), True)
    if mounts_token and not all(map(_mounts_token, _containers(spec))):
        volume = "kube-api-access-" + review.core.chance.stream("token volumes").suffix()
        mount = {"name": volume, "readOnly": True, "mountPath": TOKEN_PATH}
        for kind in CONTAINERS:
            if spec.get(kind):
                spec[kind] = [
                    container
                    if _mounts_token(container)
                    else {
                        **container,
                        "volumeMounts": [*(container.get("volumeMounts") or ()), mount],
                    }
                    for container in spec[kind]
                ]
        token: Obj = {"name": volume, "projected": {"sources": SOURCES, "defaultMode": 0o644}}
        spec["volumes"] = [*(spec.get("volumes") or ()), token]
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = list(account["imagePullSecrets"])
    review.new["spec"] = spec


def _account(review: Review, name: str) -> Obj:
    found = review.core.store.get(("", "serviceaccounts", review.request.namespace, name))
    if found is None and name != "default":
        namespace = review.request.namespace
        why = (
            f'error looking up service account {namespace}/{name}: serviceaccount "{name}" '
            "not found"
        )
        raise review.forbidden(why)
    return found or {"metadata": {}}


def _mounts_token(container: Obj) -> bool:
    """Return True if a container mounts a volume at the token's path already."""
    return any(mount["mountPath"] == TOKEN_PATH for mount in container.get("volumeMounts") or ())


def _containers(spec: Obj) -> Iterator[Obj]:
    for kind in CONTAINERS:
        yield from spec.get(kind) or ()


def validate_pod(review: Review) -> None:
    """Refuse references that a mirror pod may not have, and secrets that the account does
    not list.
    """
    assert review.new is not None
    metadata, spec = review.new["metadata"], review.new["spec"]
    if MIRROR in (metadata.get("annotations") or {}):
        if spec.get("serviceAccountName"):
            raise review.forbidden("a mirror pod may not reference service accounts")
        volumes = spec.get("volumes") or ()
        in_containers = any(True for container in _containers(spec) for _ in _secrets_of(container))
        if (
            in_containers
            or spec.get("imagePullSecrets")
            or any("secret" in volume for volume in volumes)
        ):
            raise review.forbidden("a mirror pod may not reference secrets")
        for volume in volumes:
            if any(
                "serviceAccountToken" in source
                for source in (volume.get("projected") or {}).get("sources") or ()
            ):
                raise review.forbidden(
                    "a mirror pod may not use ServiceAccountToken volume projections"
                )
        return
    account = _account(review, spec.get("serviceAccountName") or "default")
    if (account["metadata"].get("annotations") or {}).get(ENFORCED) == "true":
        _validate_secrets(review, spec, account)


def _validate_secrets(review: Review, spec: Obj, account: Obj) -> None:
    account_name, mountable = (
        account["metadata"]["name"],
        [each.get("name") for each in account.get("secrets") or ()],
    )
    refused = f"is not allowed because service account {account_name} does not reference that"
    for volume in spec.get("volumes") or ():
        name = (volume.get("secret") or {}).get("secretName")
        if name and name not in mountable:
            raise review.forbidden(f'volume with secret.secretName="{name}" {refused} secret')
    for kind, label in (("initContainers", "init container"), ("containers", "container")):
        for container in spec.get(kind) or ():
            for how, name in _secrets_of(container):
                if name not in mountable:
                    where = f"{label} {container['name']} with {how}"
                    raise review.forbidden(
                        f'{where} referencing secret.secretName="{name}" {refused} secret'
                    )
    pull = [each.get("name") for each in account.get("imagePullSecrets") or ()]
    for place, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if secret.get("name") not in pull:
            raise review.forbidden(
                f'imagePullSecrets[{place}].name="{secret.get("name")}" {refused} imagePullSecret'
            )


def _secrets_of(container: Obj) -> Iterator[tuple[str, Any]]:
    """Yield the Secrets in a container's environment, each with its kind of reference."""
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if reference:
            yield f"envVar {variable['name']}", reference.get("name")
    for source in container.get("envFrom") or ():
        if source.get("secretRef"):
            yield "envFrom", source["secretRef"].get("name")
