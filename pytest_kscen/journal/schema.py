"""Schema of what a run leaves: its version, and how records of older versions are read.

`journal.jsonl` has the version in its first line, `run.json` and `outcome.json` as the key
`schema`. A version that only renames or adds keys is read with the tables below; a journal of a
later version is refused. Must not import anything of the package.
"""

from __future__ import annotations

from typing import Any

SCHEMA = 2
VERSION = "0.1.0"
"""Of pytest-kscen, as in pyproject.toml: it is written beside the schema."""

RENAMED_KINDS = {
    "incident-perhaps": "incident-possible-effect",
    "incident-spared": "incident-refused",
    "incident-mingled": "incident-overlapping",
    "incident-gone": "incident-target-deleted",
    "whole": "replicas-restored",
    "volume-went": "volume-disappeared",
    "in-the-way": "name-taken",
    "not-looked-into": "not-listed",
    "hurried": "volumes-abandoned",
}
"""Kinds of journal entries (`what`) that schema 1 named otherwise: old -> new."""
RENAMED_KEYS = {"perhaps_done": "possibly_done", "had": "available"}
"""Keys of journal entries: old -> new. Besides, `who` became `actor`."""
RENAMED_OUTCOME_KEYS = {
    "perhaps": "possible_effects",
    "gone": "deleted_before_recovery",
    "mingled": "overlapping",
    "spared": "refused_nodes",
    "stuck": "overdue_deletions",
    "asked_at": "requested_at",
}
"""Keys of outcome.json: old -> new."""
RENAMED_RUN_KEYS = {"again": "command", "again_in": "command_folder"}
"""Keys of run.json: old -> new."""

LINK_PROFILES = ("network-block", "network-degrade")
"""Profiles of schema 1 whose incidents cut links between two nodes; later journals state it."""
STOPPING_PROFILE = "vm-stop"
"""Profile of schema 1 whose machines are off while an incident lasts; later journals state it."""


class SchemaUnknown(ValueError):
    """A record of a later version. The message names the version that has written it."""


def stamp() -> dict[str, Any]:
    """Return the keys that state the version: the first of every record."""
    return {"schema": SCHEMA, "written_by": f"pytest-kscen {VERSION}"}


def check(data: dict[str, Any], where: str) -> None:
    """Raise SchemaUnknown if a record with these keys is of a later version."""
    schema = data.get("schema", 1)
    if schema not in range(1, SCHEMA + 1):
        raise SchemaUnknown(
            f"{where} has the schema {schema!r}, and pytest-kscen {VERSION} reads 1 to {SCHEMA}: "
            f"read it with {data.get('written_by', 'the version that has written it')} or later"
        )


def upgrade_entry(data: dict[str, Any]) -> dict[str, Any]:
    """Return a journal line of schema 1 as schema 2 has it; `data` is used up."""
    at, actor, what = data.pop("at"), data.pop("who"), data.pop("what")
    if what == "crashed" and "actor" in data:
        data["component"] = data.pop("actor")
    data = {RENAMED_KEYS.get(key, key): value for key, value in data.items()}
    if what == "run-started":
        declared = data.get("chaos") or ()
        data["link_profiles"] = [name for name in declared if name in LINK_PROFILES]
    elif what == "incident-started":
        data["sides"] = _sides(data.get("profile", ""), data.get("targets") or {})
        data["powers_off"] = data.get("profile") == STOPPING_PROFILE
    return {"at": at, "actor": actor, "what": RENAMED_KINDS.get(what, what), **data}


def _sides(profile: str, targets: dict[str, list[str]]) -> list[list[str]]:
    if "group_a" in targets:
        return [targets["group_a"], targets["group_b"]]
    nodes = targets.get("nodes", [])
    return [[node] for node in nodes] if profile in LINK_PROFILES else [nodes]


def upgrade_outcome(data: dict[str, Any]) -> dict[str, Any]:
    """Return an outcome.json of schema 1 as schema 2 has it."""
    parts = {
        key: [
            {RENAMED_OUTCOME_KEYS.get(name, name): value for name, value in each.items()}
            for each in data[key]
        ]
        for key in ("volumes", "incidents")
    }
    return {**stamp(), **data, **parts}
