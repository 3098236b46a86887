"""Types with a JSON form of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.schema import leaves

if TYPE_CHECKING:
    from pytest_kscen.machinery.schema.leaves import Walk

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"


def _quantity(value: Any, _: Any) -> Any:
    return value


SPECIAL: dict[str, Walk] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": leaves.int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": leaves.opaque,
    f"{META}.Time": leaves.moment(0),
    f"{META}.MicroTime": leaves.moment(6),
    f"{META}.Duration": leaves.span,
    f"{META}.FieldsV1": leaves.opaque,
    f"{EXTENSIONS}.JSON": leaves.opaque,
    f"{EXTENSIONS}.JSONSchemaPropsOrBool": leaves.opaque,
    f"{EXTENSIONS}.JSONSchemaPropsOrArray": leaves.opaque,
    f"{EXTENSIONS}.JSONSchemaPropsOrStringArray": leaves.opaque,
}
