"""A story without what one server alone could say.

Uids, times, versions and given addresses differ from server to server; what must not differ is which of them are equal
and which come first. So each is replaced by its place among its like. Where Kubernetes itself tells in no order, as Go's
maps have none, an order is made.
"""

from __future__ import annotations

import json
import re
from typing import Any

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_VERSION = re.compile(
    r'((?:ResourceVersion in the precondition \(|ResourceVersion in record \(|, current: |resourceVersion"?:"?))(\d+)'
)
_QUOTED = re.compile(r'("\{\\".*\}")(?=: )', re.DOTALL)  # an object, as it stands quoted in a message
_STRANGERS = re.compile(r'unknown field "[^"]*"(?:, unknown field "[^"]*")+')  # which of them is told first is chance
_PATCH = re.compile(r'(?<=Invalid value: )"map\[.*\]"(?=: )', re.DOTALL)  # a patch, as it stands after half of the work
_STRUCT = re.compile(r"(?<=Invalid value: )\{.*\}(?=: )|\n@@ -.*", re.DOTALL)  # as the server's own language has it inside
_UNFIT = re.compile(r"(?<=failed to create typed patch object )(\([^)]*\)): (.*)", re.DOTALL)
_ADDRESS = re.compile(r"\b10\.0\.0\.\d+\b")
_TOKEN_VOLUME = re.compile(r"\bkube-api-access-[a-z0-9]{5}\b")
AGES = {"Age", "Duration", "First Seen", "Last Schedule", "Last Seen"}
SOME = "some version"


class Plain:
    """One story's words."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._versions: set[int] = set()
        self._ranks: dict[int, int] = {}
        self._places: dict[str, str] = {}

    def learn(self, value: Any) -> None:
        """Gather the versions of objects; a list's own version counts the whole server's writes and says nothing."""
        if isinstance(value, dict):
            version = value.get("resourceVersion")
            if isinstance(version, str) and version.isdecimal() and "uid" in value:
                self._versions.add(int(version))
            for one in value.values():
                self.learn(one)
        elif isinstance(value, list):
            for one in value:
                self.learn(one)

    def of(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._of_map(value)
        if isinstance(value, list):
            return [self.of(one) for one in value]
        return self._text(value) if isinstance(value, str) else value

    def _of_map(self, value: dict[str, Any]) -> dict[str, Any]:
        if "items" in value and isinstance(value.get("metadata"), dict):
            said = {name: SOME for name in ("resourceVersion", "continue") if value["metadata"].get(name)}
            value = {**value, "metadata": {**value["metadata"], **said}}
        if value.get("kind") == "Table":
            value = _ageless(value)
        if value.get("kind") == "Status":
            value = _ordered(value)
        plain = {name: self._version(one) if name == "resourceVersion" else self.of(one) for name, one in value.items()}
        if isinstance(plain.get("managedFields"), list):
            plain["managedFields"].sort(key=_writer)
        return plain

    def _version(self, version: Any) -> Any:
        if not isinstance(version, str) or not version.isdecimal():
            return self.of(version)
        if len(self._ranks) != len(self._versions):
            self._ranks = {each: rank for rank, each in enumerate(sorted(self._versions), 1)}
        rank = self._ranks.get(int(version))
        return f"version {rank}" if rank else version if len(version) < 2 else SOME  # noqa: PLR2004

    def _text(self, text: str) -> str:
        if len(text) < len("10.0.0.0"):
            return text
        if found := _QUOTED.search(text):
            said = json.dumps(self.of(json.loads(json.loads(found[1]))), sort_keys=True)
            return f"{self._text(text[: found.start()])}{said}{self._text(text[found.end() :])}"
        text = _STRANGERS.sub(lambda found: ", ".join(sorted(found[0].split(", "))), text)
        text = _UID.sub(lambda found: self._place("uid", found[0]), text)
        text = _UNFIT.sub(_unfit, _PATCH.sub("a patch", _STRUCT.sub("a struct", text)))
        text = _ADDRESS.sub(lambda found: self._place("address", found[0]), text)
        text = _TOKEN_VOLUME.sub(lambda found: self._place("token volume", found[0]), text)
        text = _VERSION.sub(lambda found: f"{found[1]}{self._version(found[2])}", text)
        return _TIME.sub("a time", text).replace(self._namespace, "the namespace")

    def _place(self, what: str, one: str) -> str:
        return self._places.setdefault(one, f"{what} {len(self._places) + 1}")


def _unfit(found: re.Match[str]) -> str:
    """What does not fit is told in no order, and of several fields that nobody knows the first one that is met."""
    why = found[2]
    return f"{found[1]}: " + ("not all is declared" if "not declared" in why else "\n".join(sorted(why.split("\n"))))


def _ageless(table: dict[str, Any]) -> dict[str, Any]:
    """A table without what depends on when it was asked for, and without the columns' descriptions."""
    columns = [{**column, "description": ""} for column in table.get("columnDefinitions", ())]
    names = [column["name"] for column in columns]
    rows = [
        {**row, "cells": ["an age" if name in AGES else cell for name, cell in zip(names, row["cells"], strict=False)]}
        for row in table.get("rows") or ()
    ]
    said = {name: SOME for name in ("resourceVersion", "continue") if table["metadata"].get(name)}
    return {**table, "columnDefinitions": columns, "rows": rows, "metadata": {**table["metadata"], **said}}


def _ordered(status: dict[str, Any]) -> dict[str, Any]:
    """A refusal whose causes come in one order, each once; its message tells one cause, but not the order of several."""
    causes = (status.get("details") or {}).get("causes") or []
    if len(causes) < 2:  # noqa: PLR2004
        return status
    found = [dict(cause) for cause in sorted({tuple(sorted(cause.items())) for cause in causes})]
    message, several = status["message"], len(found) > 1
    message = message.partition(" is invalid: ")[0] if several else message
    return {**status, "message": message, "details": {**status["details"], "causes": found}}


def _writer(entry: Any) -> list[str]:
    """Entries of one second come in another order than those of two. A refusal may quote what is no entry at all."""
    if not isinstance(entry, dict):
        return [str(entry)]
    return [str(entry.get(name, "")) for name in ("operation", "manager", "apiVersion", "subresource")]
