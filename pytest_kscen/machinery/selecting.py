"""Which objects a list, a watch or a deletion of many is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects.errors import BadRequest
from pytest_kscen.objects.selectors import Term, parse_fields, parse_labels, predicate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj

    Reader = Callable[[Obj], str]

NAME, NAMESPACE = "metadata.name", "metadata.namespace"
REFUSALS = {("batch", "jobs"): 'field label "{}" not supported for Job'}


class Selection(NamedTuple):
    """A namespace (none: all), a name if only that can be meant, and what else must hold."""

    namespace: str
    name: str = ""
    lets_through: Callable[[Obj], bool] | None = None
    is_of_one: bool = False

    def takes(self, obj: Obj) -> bool:
        """Whether an object is meant, wherever it is."""
        metadata = obj["metadata"]
        return (
            (not self.namespace or metadata.get("namespace") == self.namespace)
            and (not self.name or metadata["name"] == self.name)
            and (self.lets_through is None or self.lets_through(obj))
        )


def selection_of(kind: Kind, request: Request) -> Selection:
    namespace = request.namespace if kind.resource.namespaced else ""
    options = request.options
    if not options.labels and not options.fields:
        return Selection(namespace, request.name, is_of_one=bool(request.name))
    try:
        parse_labels(options.labels)
        terms = parse_fields(options.fields)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    readers = [(_reader(kind, term.field), term.equal, term.value) for term in terms]
    name = request.name or _exact(terms, NAME)
    if not namespace and kind.resource.namespaced:
        namespace = _exact(terms, NAMESPACE)
    is_of_one = bool(name and (namespace or not kind.resource.namespaced))
    return Selection(namespace, name, predicate(options.labels, readers), is_of_one)


def _exact(terms: tuple[Term, ...], field: str) -> str:
    return next((term.value for term in terms if term.field == field and term.equal), "")


def _reader(kind: Kind, field: str) -> Reader:
    own = kind.rules.fields
    if field in own:
        read = own[field]
        return (lambda obj: read(kind.shown(obj))) if kind.conversion else read
    if field == NAME:
        return _name
    if field == NAMESPACE and (kind.resource.namespaced or not own):
        return _namespace
    resource = kind.resource
    if own or kind.custom:
        raise BadRequest(REFUSALS.get((resource.group, resource.plural), "field label not supported: {}").format(field))
    raise BadRequest(f'"{field}" is not a known field selector: only "{NAME}", "{NAMESPACE}"')


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _namespace(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace", ""))
