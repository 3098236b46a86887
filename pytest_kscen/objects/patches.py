"""JSON merge patch, in both directions, and JSON patch. Each returns a new object, which shares
unchanged parts.

JSON patch follows the library of Kubernetes where that is less strict than RFC 6902: `replace` may
add a key to an object, a missing value means null, and indices may count from the end.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from pytest_kscen.objects.resources import Obj

    Change = Callable[[Any, str], None]

MISSING = object()
COPY_LIMIT = 3 * 1024 * 1024  # bytes that the copies of one patch may add


class PatchError(ValueError):
    """Patch that is malformed or does not apply; the text is that of the library which Kubernetes
    uses.
    """


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a merge patch by RFC 7386. Values that the patch does not change stay the same objects,
    so that callers recognise an unchanged document by identity.
    """
    if isinstance(patch, list) and isinstance(target, list):
        there = set(map(id, target))
        return [item if id(item) in there else _pruned(item) for item in patch]
    if not isinstance(patch, dict):
        return _pruned(patch)
    old = target if isinstance(target, dict) else {}
    changed = {}
    for name, value in patch.items():
        if value is None:
            continue
        was = old.get(name)
        now = merge_patch(was, value)
        if now is not was and (
            isinstance(value, dict) or name not in old or not same_json(now, was)
        ):
            changed[name] = now
    removed = [name for name, value in patch.items() if value is None and name in old]
    if old is target and not changed and not removed:
        return target
    merged = {**old, **changed}
    for name in removed:
        del merged[name]
    return merged


def _pruned(value: Any) -> Any:
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    if isinstance(value, dict):
        return {name: _pruned(item) for name, item in value.items() if item is not None}
    return value


def merge_difference(old: Obj, new: Obj, ignored: Container[str] = ()) -> Obj:
    """Return the merge patch that turns `old` into `new`, without the `ignored` top-level fields.

    Such a patch cannot set null: where `new` contains one, applying the patch gives another object.
    Parts that both objects share are not compared, so the cost follows what was written anew.
    """
    patch: Obj = {}
    kept = len(old)
    for name, value in new.items():
        was = old.get(name, MISSING)
        if value is was:
            continue
        if was is MISSING:
            kept += 1
        if name in ignored:
            continue
        if type(value) is dict and type(was) is dict:
            if inner := merge_difference(was, value):
                patch[name] = inner
        elif type(value) is not type(was) or value != was:
            patch[name] = value
    if kept != len(new):
        patch |= {name: None for name in old if name not in new and name not in ignored}
    return patch


def same_json(one: Any, other: Any) -> bool:
    """Compare JSON values strictly: unlike with Python's equality, 1, true and 1.0 differ. Equal
    objects are recognised by identity first.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return isinstance(one, list) and isinstance(other, list) and list(one) == list(other)
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            name in other and same_json(value, other[name]) for name, value in one.items()
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


class _MissingPathError(Exception):
    pass


class _MissingKeyError(Exception):
    pass


MISSING_PATH_MESSAGES = {
    "add": 'add operation does not apply: doc is missing path: "{}": missing value',
    "remove": 'remove operation does not apply: doc is missing path: "{}": missing value',
    "replace": "replace operation does not apply: doc is missing path: {}: missing value",
    "move": "move operation does not apply: doc is missing path: {}: missing value",
    "copy": "copy operation does not apply: doc is missing path: {}: missing value",
    "test": "test operation does not apply: is missing path: {}: missing value",
}
MISSING_KEY_MESSAGES = {
    "replace": "replace operation does not apply: doc is missing key: {0}: missing value",
    "copy": "error while adding value during copy: {1}",
}


def json_patch(document: Any, operations: Iterable[Obj]) -> Any:
    """Apply a JSON patch by RFC 6902, one operation after the other. Raises PatchError in the words
    of Kubernetes' library; the document itself is never changed.
    """
    copied = 0
    for operation in operations:
        name = operation.get("op") or "unknown"
        if name not in OPERATIONS:
            raise PatchError(f"Unexpected kind: {name}")
        try:
            copied += (
                len(orjson.dumps(_at(document, _steps(operation, "from")))) if name == "copy" else 0
            )
            document = OPERATIONS[name](document, operation)
        except _MissingPathError:
            raise PatchError(MISSING_PATH_MESSAGES[name].format(operation["path"])) from None
        except _MissingKeyError as error:
            raise PatchError(
                MISSING_KEY_MESSAGES.get(name, f"error in {name} for path: '{{0}}': {{1}}").format(
                    operation.get("path"), error
                )
            ) from None
        if copied > COPY_LIMIT:
            why = (
                f"the accumulated size increase of copy is {copied}, exceeding the limit "
                f"{COPY_LIMIT}"
            )
            raise PatchError(f"Unable to complete the copy, {why}")
    return document


def _steps(operation: Obj, name: str) -> list[str]:
    pointer = operation.get(name)
    if pointer is None:
        raise PatchError(
            f"{operation['op']} operation failed to decode {name}: operation, missing "
            f"{name} field: missing value"
        )
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _at(document: Any, steps: list[str]) -> Any:
    if not steps:
        raise _MissingPathError
    for step in steps[:-1]:
        document = _child(document, step)
    if isinstance(document, dict):
        return document.get(steps[-1])
    if isinstance(document, list):
        return document[_index(steps[-1], len(document))]
    raise _MissingPathError


def _child(container: Any, step: str) -> Any:
    if isinstance(container, list):
        with contextlib.suppress(_MissingKeyError):
            return container[_index(step, len(container))]
    elif isinstance(container, dict) and step in container:
        return container[step]
    raise _MissingPathError


def _index(step: str, length: int) -> int:
    if not step.removeprefix("-").removeprefix("+").isdecimal():
        raise _MissingKeyError(f'strconv.Atoi: parsing "{step}": invalid syntax')
    index = int(step)
    if not -length <= index < length:
        raise _MissingKeyError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index % length


def _changed(document: Any, steps: list[str], change: Change) -> Any:
    """Return a copy with `change` applied to the container of the last step. Only the containers on
    the way are copied.
    """
    if not steps or not isinstance(document, dict | list):
        raise _MissingPathError
    copy = dict(document) if isinstance(document, dict) else list(document)
    if len(steps) == 1:
        change(copy, steps[0])
        return copy
    _put(copy, steps[0], _changed(_child(copy, steps[0]), steps[1:], change))
    return copy


def _put(container: Any, step: str, value: Any) -> None:
    container[step if isinstance(container, dict) else _index(step, len(container))] = value


def _insert(container: Any, step: str, value: Any) -> None:
    if isinstance(container, dict):
        container[step] = value
    elif step == "-":
        container.append(value)
    else:
        try:
            container.insert(_index(step, len(container) + 1), value)
        except _MissingKeyError as error:
            odd = "Atoi" in str(error)
            raise _MissingKeyError(
                f"value was not a proper array index: '{step}': {error}" if odd else str(error)
            ) from None


def _delete(container: Any, step: str) -> None:
    if isinstance(container, dict) and step not in container:
        raise _MissingKeyError(f"Unable to remove nonexistent key: {step}: missing value")
    del container[step if isinstance(container, dict) else _index(step, len(container))]


def _inserted(document: Any, operation: Obj, value: Any) -> Any:
    return _changed(
        document, _steps(operation, "path"), lambda container, step: _insert(container, step, value)
    )


def _replace(document: Any, operation: Obj) -> Any:
    value, steps = operation.get("value"), _steps(operation, "path")
    if operation["path"] == "":
        if not isinstance(value, dict | list):
            raise PatchError("replace operation value must be object or array")
        return value
    return _changed(document, steps, lambda container, step: _put(container, step, value))


def _move(document: Any, operation: Obj) -> Any:
    value = _at(document, _steps(operation, "from"))
    return _inserted(_changed(document, _steps(operation, "from"), _delete), operation, value)


def _test(document: Any, operation: Obj) -> Any:
    steps = _steps(operation, "path")
    value = document if operation["path"] == "" else _at(document, steps)
    if not same_json(value, operation.get("value")):
        raise PatchError(f"testing value {operation['path']} failed: test failed")
    return document


OPERATIONS: dict[str, Callable[[Any, Obj], Any]] = {
    "add": lambda document, operation: _inserted(document, operation, operation.get("value")),
    "remove": lambda document, operation: _changed(document, _steps(operation, "path"), _delete),
    "replace": _replace,
    "move": _move,
    "copy": lambda document, operation: _inserted(
        document, operation, _at(document, _steps(operation, "from"))
    ),
    "test": _test,
}
