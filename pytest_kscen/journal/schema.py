"""Schema of a run's records: the stamp of all, and the upgrade of journals of older versions.

`journal.jsonl` has the version in its first line, `run.json` and `outcome.json` as the key
`schema`. Journals of schema 1 are read with the tables below; later ones are refused. The archive
reads the test's id in `run.json`, which all schemas have, to recognise its own folders.
`journal.py` is the caller. Must not import anything of the package.
"""

from __future__ import annotations

from typing import Any

SCHEMA = 2
VERSION = "0.1.0"
"""Version of pytest-kscen, as in pyproject.toml: it is written together with the schema."""

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

LINK_PROFILES = ("network-block", "network-degrade")
"""Profiles of schema 1 whose incidents cut links between two nodes; later journals state it."""
STOPPING_PROFILE = "vm-stop"
"""Profile of schema 1 whose machines are off while an incident lasts; later journals state it."""


class SchemaUnknown(ValueError):
    """Report a journal whose schema this version does not read, and the version that wrote it."""


def stamp() -> dict[str, Any]:
    return {"schema": SCHEMA, "written_by": f"pytest-kscen {VERSION}"}


def pop_version(first: dict[str, Any]) -> int:
    """Return the schema of the journal that begins with this line, and remove the stamp from it.

    Raise SchemaUnknown if this version cannot read it. Schema 1 has no stamp and names the actor
    `who`; any other line without a stamp belongs to a journal that has lost its first line.
    """
    version = first.pop("schema", 1 if "who" in first else SCHEMA)
    writer = first.pop("written_by", "")
    if type(version) is not int or version < 1:
        raise SchemaUnknown(
            f"'schema' is {version!r}, and has to be a number from 1 on: restore the file as the "
            "run has written it"
        )
    if version > SCHEMA:
        name = f" ({writer})" if writer else ""
        raise SchemaUnknown(
            f"the journal has schema {version}; this installation reads 1 to {SCHEMA}. Read it "
            f"with the installation that wrote it{name}, or with a later one"
        )
    return version


def upgrade_entry(data: dict[str, Any]) -> dict[str, Any]:
    """Return a journal line of schema 1 as schema 2 has it.

    `data` is used up: its keys are removed. A line of schema 2 must not be given.
    """
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
