"""Validation of CustomResourceDefinitions: names, versions, conversion, stored versions, approval.

Parts that are equal in all versions are reported at the top of the spec, as the real server does
after conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_kscen.embedded.apiserver.crds.structural_schemas import validate_version_schema
from pytest_kscen.embedded.apiserver.schema.structural import InvalidFieldPath, resolve_field_path
from pytest_kscen.objects.errors import Cause
from pytest_kscen.objects.names import dns1035_label, dns1123_subdomain
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.resources import Obj


COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
MAX_SELECTABLE_FIELDS = 8
SELECTABLE_TYPE_ERROR = (
    "must point to a field of type string, boolean or integer. Enum string fields and "
    "strings with formats are allowed."
)


def validate_version_parts(
    own: Obj, version: Obj, path: str, schema_name: str, *, has_status: bool
) -> Iterator[Cause]:
    """Yield the causes for schema, subresources, columns and selectable fields.

    `own` holds the parts to validate at this path, `version` the whole version.
    """
    schema = (own.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        yield from validate_version_schema(
            schema, f"{path}.{schema_name}.openAPIV3Schema", has_status=has_status
        )
    if scale := (own.get("subresources") or {}).get("scale"):
        here = f"{path}.subresources.scale"
        for name, roots in (
            ("specReplicasPath", (".spec.",)),
            ("statusReplicasPath", (".status.",)),
        ):
            if given := scale.get(name, ""):
                yield from _validate_rooted_path(
                    f"{here}.{name}",
                    given,
                    roots,
                    f"should be a json path under {roots[0].rstrip('.')}",
                )
            else:
                yield Cause.required(f"{here}.{name}")
        if given := scale.get("labelSelectorPath"):
            detail = "should be a json path under either .spec or .status"
            yield from _validate_rooted_path(
                f"{here}.labelSelectorPath", given, (".spec.", ".status."), detail
            )
    for index, column in enumerate(own.get("additionalPrinterColumns") or ()):
        yield from _validate_printer_column(column, f"{path}.additionalPrinterColumns[{index}]")
    if own.get("selectableFields"):
        whole = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        yield from _validate_selectable_fields(
            own["selectableFields"], whole, f"{path}.selectableFields"
        )


def _validate_rooted_path(
    field: str, given: str, roots: tuple[str, ...], detail: str
) -> Iterator[Cause]:
    if not given.startswith("."):
        yield Cause.invalid(field, given, "must be a simple json path starting with .")
    elif not given.startswith(roots):
        yield Cause.invalid(field, given, detail)


def _validate_printer_column(column: Obj, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield Cause.required(f"{path}.name")
    given, detail = column.get("type", ""), f"must be one of {','.join(COLUMN_TYPES)}"
    if given not in COLUMN_TYPES:
        yield (
            Cause.invalid(f"{path}.type", given, detail)
            if given
            else Cause.required(f"{path}.type", detail)
        )
    form = column.get("format", "")
    if form and form not in COLUMN_FORMATS:
        yield Cause.invalid(f"{path}.format", form, f"must be one of {','.join(COLUMN_FORMATS)}")
    where = column.get("jsonPath", "")
    if not where:
        yield Cause.required(f"{path}.JSONPath")
    elif not where.startswith("."):
        yield Cause.invalid(f"{path}.JSONPath", where, "must be a simple json path starting with .")


def _validate_selectable_fields(fields: list[Obj], schema: Obj, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, given in enumerate(fields):
        where, field = given.get("jsonPath", ""), f"{path}[{index}].jsonPath"
        if not where:
            yield Cause.required(field)
            continue
        try:
            written, found = resolve_field_path(where, schema, by_key=False)
        except InvalidFieldPath as error:
            yield Cause.invalid(field, where, f"is an invalid path: {error}")
            continue
        if written.partition(".")[0] == "metadata":
            yield Cause.invalid(field, where, "must not point to fields in metadata")
        if found.get("type") not in {"string", "boolean", "integer"}:
            yield Cause.invalid(field, where, SELECTABLE_TYPE_ERROR)
        if written in seen:
            yield Cause.duplicate(field, where)
        seen.add(written)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield Cause.too_many(path, len(seen), MAX_SELECTABLE_FIELDS)


APPROVAL_ANNOTATION = "api-approved.kubernetes.io"
APPROVAL_LINK = "see https://github.com/kubernetes/enhancements/pull/1111"
STORED_VERSION_MISSING = (
    "missing from spec.versions; {0} was previously a storage version, and must remain "
    "in spec.versions until a storage "
    "migration ensures no data remains persisted in {0} and removes {0} from status.storedVersions"
)


def validate_stored_versions(definition: Obj) -> Iterator[Cause]:
    stored, path = (
        (definition.get("status") or {}).get("storedVersions") or [],
        "status.storedVersions",
    )
    if not stored:
        yield Cause.invalid(path, None, "must have at least one stored version")
        return
    versions = definition["spec"].get("versions") or []
    for version in versions:
        if version.get("storage") and version["name"] not in stored:
            yield Cause.invalid(path, stored, f"must have the storage version {version['name']}")
    known = {version["name"] for version in versions}
    for index, name in enumerate(stored):
        if name not in known:
            yield Cause.invalid(f"{path}[{index}]", name, STORED_VERSION_MISSING.format(name))


def validate_approval(definition: Obj, old: Obj | None = None) -> Iterator[Cause]:
    """Yield a cause for a group of Kubernetes' own domains without the annotation that links to its
    approval.

    An update passes if the state of the annotation is unchanged.
    """
    group = definition["spec"].get("group", "")
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    annotation = _approval_annotation(definition)
    if old is not None and _approval_state(_approval_annotation(old)) == _approval_state(
        annotation
    ):
        return
    field = f"metadata.annotations[{APPROVAL_ANNOTATION}]"
    if not annotation:
        yield Cause.required(
            field,
            f'protected groups must have approval annotation "{APPROVAL_ANNOTATION}", '
            f"{APPROVAL_LINK}",
        )
    elif _approval_state(annotation) == "invalid":
        detail = (
            f'protected groups must have approval annotation "{APPROVAL_ANNOTATION}" with either '
            'a URL or a reason starting with "unapproved"'
        )
        yield Cause.invalid(field, annotation, f"{detail}, {APPROVAL_LINK}")


def _approval_annotation(definition: Obj) -> str:
    return str((definition["metadata"].get("annotations") or {}).get(APPROVAL_ANNOTATION, ""))


def _approval_state(annotation: str) -> str:
    if not annotation or annotation.startswith("unapproved"):
        return annotation and "bypassed"
    url = urlsplit(annotation)
    return "approved" if url.scheme and url.netloc else "invalid"


MIXED_CASE = "may have mixed case, but should otherwise match: "


def validate_names(names: Obj, path: str) -> Iterator[Cause]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            yield Cause.required(f"{path}.{name}")
    for name in ("plural", "singular"):
        yield from _validate_name(f"{path}.{name}", names.get(name, ""))
    for name in ("kind", "listKind"):
        yield from _validate_name(f"{path}.{name}", names.get(name, ""), str.lower, MIXED_CASE)
    for index, name in enumerate(names.get("shortNames") or ()):
        yield from _validate_name(f"{path}.shortNames[{index}]", name)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield Cause.invalid(
            f"{path}.listKind", names["listKind"], "kind and listKind may not be the same"
        )
    for index, name in enumerate(names.get("categories") or ()):
        yield from _validate_name(f"{path}.categories[{index}]", name)


def _validate_name(
    field: str, name: str, form: Callable[[str], str] = str, message: str = ""
) -> Iterator[Cause]:
    if name and (wrong := dns1035_label(form(name))):
        yield Cause.invalid(field, name, message + ",".join(wrong))


def validate_conversion(conversion: Obj | None) -> Iterator[Cause]:
    if conversion is None:
        return
    strategy, webhook, path = (
        conversion.get("strategy", ""),
        conversion.get("webhook") or {},
        "spec.conversion",
    )
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy not in {"None", "Webhook"}:
        field = f"{path}.strategy"
        yield (
            Cause.unsupported(field, strategy, ("None", "Webhook"))
            if strategy
            else Cause.required(field)
        )
    if strategy != "Webhook":
        detail = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield Cause.forbidden(f"{path}.webhookClientConfig", detail)
        if versions:
            yield Cause.forbidden(f"{path}.conversionReviewVersions", detail)
        return
    from pytest_kscen.embedded.apiserver.rules import webhooks  # few definitions have a conversion

    if config is None:
        yield Cause.required(
            f"{path}.webhookClientConfig", "required when strategy is set to Webhook"
        )
    else:
        yield from webhooks.validate_client_config(f"{path}.webhookClientConfig", config)
    yield from webhooks.validate_review_versions(f"{path}.conversionReviewVersions", versions)


MAX_WARNING_BYTES = 256
PRESERVE_FORBIDDEN = (
    "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
    "spec.versions[*].schema instead"
)
GO_FIELD_NAMES = {
    "name": "Name",
    "served": "Served",
    "storage": "Storage",
    "deprecated": "Deprecated",
    "deprecationWarning": "DeprecationWarning",
    "schema": "Schema",
    "subresources": "Subresources",
    "additionalPrinterColumns": "AdditionalPrinterColumns",
    "selectableFields": "SelectableFields",
}


def validate_definition(definition: Obj) -> Iterator[Cause]:
    yield from validate_definition_spec(definition["spec"])
    yield from validate_stored_versions(definition)
    yield from validate_approval(definition)
    if definition["spec"].get("preserveUnknownFields"):
        yield Cause.invalid("spec.preserveUnknownFields", True, PRESERVE_FORBIDDEN)


def validate_definition_update(definition: Obj, old: Obj) -> Iterator[Cause]:
    yield from validate_definition_spec(definition["spec"])
    spec = definition["spec"]
    before, conditions = old["spec"], (old.get("status") or {}).get("conditions") or ()
    paths = ["group", "names.plural"]
    if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
        paths = ["scope", "names.kind", *paths]
    for path in paths:
        new, was = field_at(spec, path), field_at(before, path)
        if new != was:
            yield Cause.invalid(f"spec.{path}", new, "field is immutable")
    yield from validate_stored_versions(definition)
    yield from validate_approval(definition, old)
    if definition["spec"].get("preserveUnknownFields"):
        yield Cause.invalid("spec.preserveUnknownFields", True, PRESERVE_FORBIDDEN)


def validate_definition_spec(spec: Obj) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    shared = {
        part: all(version.get(part) == versions[0].get(part) for version in versions)
        for part in ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
    }
    group, scope = spec.get("group", ""), spec.get("scope", "")
    if not group:
        yield Cause.required("spec.group")
    elif wrong := dns1123_subdomain(group):
        yield Cause.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield Cause.invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield Cause.required("spec.scope")
    elif scope not in {"Cluster", "Namespaced"}:
        yield Cause.unsupported("spec.scope", scope, ("Cluster", "Namespaced"))
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield Cause.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index, version in enumerate(versions):
        own = {part: value for part, value in version.items() if not shared.get(part)}
        yield from _validate_version(own, version, f"spec.versions[{index}]")
    yield from _validate_versions(versions, shared)
    yield from validate_names(spec.get("names") or {}, "spec.names")
    if versions:
        own = {part: value for part, value in versions[0].items() if shared.get(part)}
        any_status = any("status" in (version.get("subresources") or {}) for version in versions)
        yield from validate_version_parts(
            own, versions[0], "spec", "validation", has_status=any_status
        )
    yield from validate_conversion(spec.get("conversion"))


def _validate_version(own: Obj, version: Obj, path: str) -> Iterator[Cause]:
    name = version.get("name", "")
    if wrong := dns1035_label(name):
        yield Cause.invalid(f"{path}.name", name, ",".join(wrong))
    yield from _validate_deprecation_warning(version, path)
    has_status = "status" in (version.get("subresources") or {})
    yield from validate_version_parts(own, version, path, "schema", has_status=has_status)


def _validate_deprecation_warning(version: Obj, path: str) -> Iterator[Cause]:
    message, field = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if message is None:
        return
    if not version.get("deprecated"):
        yield Cause.invalid(field, message, "can only be set for deprecated versions")
        return
    if len(message.encode()) > MAX_WARNING_BYTES:
        yield Cause.invalid(field, message, f"must be <= {MAX_WARNING_BYTES} characters long")
    if not message:
        yield Cause.invalid(field, message, "must not be an empty string")
    for index, letter in enumerate(message):
        if not letter.isprintable():
            detail = (
                "must only contain printable UTF-8 characters; non-printable character found "
                f"at index {index}"
            )
            yield Cause.invalid(field, message, detail)
            return


def _validate_versions(versions: list[Obj], shared: dict[str, bool]) -> Iterator[Cause]:
    flags = {"served": False, "storage": False, "deprecated": False}
    shown = [
        {
            go: None if shared.get(name) else version.get(name, flags.get(name))
            for name, go in GO_FIELD_NAMES.items()
        }
        for version in versions
    ]
    names = [version.get("name", "") for version in versions]
    if len({*names}) < len(names):
        yield Cause.invalid("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield Cause.invalid(
            "spec.versions", shown, "must have exactly one version marked as storage version"
        )
    if names and (wrong := dns1035_label(names[0])):
        yield Cause.invalid("spec.version", names[0], ",".join(wrong))
