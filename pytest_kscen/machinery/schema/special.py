"""Types with a JSON form of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.schema import leaves
from pytest_kscen.machinery.schema.mismatch import Unfit
from pytest_kscen.objects.quantities import canonical

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.machinery.schema.leaves import Walk

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"


def quantity(value: Any, _: Any) -> Any:
    if value is None:
        return None
    if type(value) not in {str, int, float}:
        raise Unfit(NO_QUANTITY)
    try:
        return canonical(str(value))
    except ValueError as complaint:
        raise Unfit(str(complaint)) from None


NO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SPECIAL: dict[str, Walk] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": leaves.int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": leaves.opaque,
    f"{META}.Time": leaves.moment(0),
    f"{META}.MicroTime": leaves.moment(6),
    f"{META}.Duration": leaves.span,
    f"{META}.FieldsV1": leaves.opaque,
    f"{EXTENSIONS}.JSON": leaves.opaque,
}
SPECIAL_ZEROS: dict[str, Callable[[], Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": lambda: "0",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": lambda: 0,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": lambda: None,
    f"{META}.Time": lambda: None,
    f"{EXTENSIONS}.JSON": lambda: None,
}
