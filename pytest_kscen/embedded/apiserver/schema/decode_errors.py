"""Why a value does not fit its type: found at a leaf, placed by the structs around it, worded as
Go's JSON decoder does.
"""

from __future__ import annotations

from typing import Any

from pytest_kscen.objects.errors import BadRequest, shown

JSON_TYPE_NAMES = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
GO_TYPE_NAMES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "slice",
    dict: "map",
}


class DecodeError(Exception):
    """Found while decoding; its text is all that is known of it."""

    def inside(self, struct: str, field: str) -> None:
        """A struct says that the value is in this field of it."""


class TypeMismatch(DecodeError):
    """A value of one type stands where another belongs."""

    def __init__(
        self,
        value: Any,
        wanted: str,
        *,
        literal: bool = False,
        final: bool = False,
        basic: str = "",
    ) -> None:
        super().__init__(value, wanted)
        self.value = value
        self.is_final = final  # the decoder does not look any further
        self._basic = basic or wanted  # the type under a type's own name
        found = JSON_TYPE_NAMES.get(type(value), type(value).__name__)
        self._found = f"{found} {value}" if literal else found
        self._wanted = wanted
        self._struct = ""
        self._path: list[str] = []

    def converted(self) -> str:
        """The same in the words of Go's converter, which leaves types that decode themselves to
        JSON.
        """
        if self.is_final:
            self._path.clear()
            return str(self)
        found, wanted = GO_TYPE_NAMES.get(type(self.value), type(self.value).__name__), self._basic
        for shape, words in {"map[": "map from", "[]": "slice from", "": "struct from:"}.items():
            if wanted.startswith(shape) and (shape or "." in wanted):
                return f"cannot restore {words} {found}"
        if (found == "int64" and wanted == "string") or (found == "float64" and "int" in wanted):
            return f"cannot convert {found} to {self._wanted}"
        return f"unrecognized type: {wanted}"

    def inside(self, struct: str, field: str) -> None:
        self._struct = self._struct or struct
        self._path.append(field)

    def __str__(self) -> str:
        where = (
            f"struct field {self._struct}.{'.'.join(reversed(self._path))} of"
            if self._path
            else "value of"
        )
        return f"json: cannot unmarshal {self._found} into Go {where} type {self._wanted}"


class InvalidBase64(DecodeError):
    """A text that is no base64."""

    is_final = False

    def __init__(self, value: str, place: int) -> None:
        super().__init__(f"illegal base64 data at input byte {place}")
        self.value = value


class EmbeddedResourceError(DecodeError):
    """Something is wrong in a resource that is embedded in another one; the objects around it
    say where.
    """

    def __init__(self, value: Any, why: str) -> None:
        super().__init__(value, why)
        self._worded = f"Invalid value: {shown(value)}: {why}"
        self._path = ""

    def below(self, step: str) -> None:
        self._path = step + self._path

    def __str__(self) -> str:
        return f"{self._path.removeprefix('.')}: {self._worded}"


class UnknownField(Exception):
    """A field that its struct does not have."""


class Undecodable(BadRequest):
    """A body that is no object of its kind; `why` is the decoder's own part of the message."""

    def __init__(self, kind: str, version: str, why: str) -> None:
        super().__init__(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')
        self.why = why
