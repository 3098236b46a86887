"""Errors of decoding, with the messages of Go's JSON decoder and of its converter.

Raised by the decoder of a leaf; the structs around it add the path. Undecodable is what a client
receives.
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
    """Value that does not fit its type; the text is the whole message."""

    def add_step(self, struct: str, field: str) -> None:
        """Record that the value is in this field of this struct. Called by each struct around it,
        from inside to outside.
        """


class TypeMismatch(DecodeError):
    """Value of another type than the schema's. The message names Go's type and the path of struct
    fields.
    """

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
        self.is_final = final  # the decoder stops here
        self._basic = basic or wanted  # the underlying type of a named type
        found = JSON_TYPE_NAMES.get(type(value), type(value).__name__)
        self._found = f"{found} {value}" if literal else found
        self._wanted = wanted
        self._struct = ""
        self._path: list[str] = []

    def converter_message(self) -> str:
        """Return the message of Go's converter, which leaves types with their own JSON form to the
        JSON decoder.
        """
        if self.is_final:
            self._path.clear()
            return str(self)
        found, wanted = GO_TYPE_NAMES.get(type(self.value), type(self.value).__name__), self._basic
        for shape, phrase in {"map[": "map from", "[]": "slice from", "": "struct from:"}.items():
            if wanted.startswith(shape) and (shape or "." in wanted):
                return f"cannot restore {phrase} {found}"
        if (found == "int64" and wanted == "string") or (found == "float64" and "int" in wanted):
            return f"cannot convert {found} to {self._wanted}"
        return f"unrecognized type: {wanted}"

    def add_step(self, struct: str, field: str) -> None:
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
    """Text that is not base64, with the position of the first bad byte as Go's decoder
    counts it.
    """

    is_final = False

    def __init__(self, value: str, index: int) -> None:
        super().__init__(f"illegal base64 data at input byte {index}")
        self.value = value


class EmbeddedResourceError(DecodeError):
    """Fault in a resource that is embedded in another one. The objects around it prepend their
    steps to the path.
    """

    def __init__(self, value: Any, why: str) -> None:
        super().__init__(value, why)
        self._worded = f"Invalid value: {shown(value)}: {why}"
        self._path = ""

    def prepend(self, step: str) -> None:
        self._path = step + self._path

    def __str__(self) -> str:
        return f"{self._path.removeprefix('.')}: {self._worded}"


class UnknownField(Exception):
    """Field that its struct does not have. Carries no path: the pruning that follows finds all of
    them.
    """


class Undecodable(BadRequest):
    """Body that is not an object of its kind, reported as a bad request. `why` is the decoder's
    part of the message.
    """

    def __init__(self, kind: str, version: str, why: str) -> None:
        super().__init__(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')
        self.why = why
