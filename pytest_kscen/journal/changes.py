"""Record of changes: each version of each recorded object, in the order of the writes.

The cluster of a run notes every change in a `ChangeRecord`, which passes it to its followers at
once and, in a run that is archived, writes it to `changes.jsonl.gz` beside the journal.
`stored_changes` reads such a file again. `resourceVersion` is kept apart and `managedFields` are
left out, because every write changes them. Imports `objects` alone; nothing here may judge.
"""

from __future__ import annotations

import gzip
import threading
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from pytest_kscen.journal import schema
from pytest_kscen.objects.patches import merge_difference, merge_patch

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.resources import Obj

    Key = tuple[str, str, str]

FULL_COPY_EVERY = 100  # changes of one object
FAST = 1  # level of compression: the record may take a tenth of a run's time
FLUSH_EVERY = 1 << 16  # bytes of lines
LEFT_OUT = frozenset(["managedFields", "resourceVersion"])
METADATA = frozenset(["metadata"])


@dataclass(slots=True)
class Change:
    """Change of one object: its state before and after, both None where it does not exist.

    Never changed after it was made. Not frozen, since very many are made.
    """

    at: float
    """Seconds since the run began."""
    resource: str
    """Plural and group, as in `replicatedvolumes.storage.deckhouse.io`."""
    namespace: str
    name: str
    old: Obj | None
    new: Obj | None
    writer: str = ""
    """Field manager of the write; empty where the cluster does not show it, as for a deletion."""
    entries: int = 0
    """Entries that the journal had at this time: the order of both records."""
    initial: bool = False
    """True for a state that was there when the record began."""
    skipped: bool = False
    """True if versions between `old` and `new` were not seen."""

    @property
    def object(self) -> Obj:
        """Return the new state, or the last one of an object that was deleted."""
        return self.new or self.old or {}


class ChangeRecord:
    """Record of one run, open while the run is on.

    `note` is called for each change, in the thread of the cluster; it must not raise, since its
    caller is the system under test. After an error nothing is recorded any more and `lost` has the
    reason: an incomplete record would be judged as complete.
    """

    def __init__(self, now: Callable[[], float], entries: Callable[[], int]) -> None:
        """Begin an empty record. `now` returns the run's seconds, `entries` the number of entries
        in its journal.
        """
        self.lost = ""
        self.count = 0
        self._is_finished = False
        self._now = now
        self._entries = entries
        self._lock = threading.Lock()  # on real clusters another thread ends the record
        self._followers: list[Callable[[Change], object]] = []
        self._since_copy: dict[Key, int] = {}
        self._file: BinaryIO | None = None
        self._compressor = _compressor()
        self._lines: list[bytes] = []
        self._size = 0

    def follow(self, follower: Callable[[Change], object]) -> None:
        """Call back for each change from now on. An error of the follower ends the record."""
        self._followers.append(follower)

    def note(
        self,
        resource: str,
        old: Obj | None,
        new: Obj | None,
        writer: str = "",
        *,
        initial: bool = False,
        skipped: bool = False,
    ) -> None:
        with self._lock:
            if self.lost or self._is_finished:
                return
            try:
                metadata = (new or old or {})["metadata"]
                change = Change(
                    round(self._now(), 6),
                    resource,
                    metadata.get("namespace", ""),
                    metadata["name"],
                    old,
                    new,
                    writer,
                    self._entries(),
                    initial,
                    skipped,
                )
                self.count += 1
                if self._file:
                    self._write(change, self._file)
                for follower in self._followers:
                    follower(change)
            except Exception as error:  # noqa: BLE001  # the writer is not to suffer from it
                self.lost = repr(error)

    def _write(self, change: Change, file: BinaryIO) -> None:
        new, old = change.new, change.old
        key = (change.resource, change.namespace, change.name)
        line: dict[str, Any] = {
            "at": change.at,
            "resource": change.resource,
            "namespace": change.namespace,
            "name": change.name,
            "entries": change.entries,
            "writer": change.writer,
        }
        if change.initial:
            line["initial"] = True
        if change.skipped:
            line["skipped"] = True
        if new is None:
            line["deleted"] = True
            self._since_copy.pop(key, None)
        else:
            line["version"] = new["metadata"].get("resourceVersion", "")
            since = self._since_copy.get(key, FULL_COPY_EVERY)
            patch = _patch(old, new) if old is not None and since < FULL_COPY_EVERY else None
            if patch is None:
                line["object"] = {**new, "metadata": _shown(new["metadata"])}
                since = 0
            else:
                line["patch"] = patch
            self._since_copy[key] = since + 1
        written = orjson.dumps(line)
        self._lines.append(written)
        self._size += len(written)
        if self._size > FLUSH_EVERY:
            self._compress(file)

    def _compress(self, file: BinaryIO) -> None:
        self._lines.append(b"")
        file.write(self._compressor.compress(b"\n".join(self._lines)))
        self._lines, self._size = [], 0

    def keep_in(self, path: pathlib.Path) -> None:
        """Write the record to this file, from its first change on.

        A run that is killed leaves what was compressed until then.
        """
        if self.count:
            raise RuntimeError(
                f"the record has {self.count} changes already: keep it from the start"
            )
        self._file = path.open("wb")
        self._lines.append(orjson.dumps(schema.stamp()))

    def finish(self) -> None:
        """Write the end of the file; what is noted after it is dropped."""
        with self._lock:
            self._is_finished = True
            if self._file:
                self._compress(self._file)
                self._file.write(self._compressor.flush())
                self._file.close()
                self._file = None


def _compressor() -> Any:
    """Return a compressor whose bytes depend on its input alone: gzip's own states the time."""
    return zlib.compressobj(FAST, zlib.DEFLATED, 16 + zlib.MAX_WBITS)


def _shown(metadata: Obj) -> Obj:
    return {name: value for name, value in metadata.items() if name not in LEFT_OUT}


def _patch(old: Obj, new: Obj) -> orjson.Fragment | None:
    """Return the merge patch between two versions, or None if no patch leads to the new one."""
    patch = merge_difference(old, new, METADATA)
    if metadata := merge_difference(old["metadata"], new["metadata"], LEFT_OUT):
        patch["metadata"] = metadata
    text = orjson.dumps(patch)
    if b"null" in text:  # in most cases the removal of a field
        reached = merge_patch({**old, "metadata": _shown(old["metadata"])}, patch)
        if reached != {**new, "metadata": _shown(new["metadata"])}:
            return None
    return orjson.Fragment(text)


class RecordDamaged(ValueError):
    """Report a record that cannot be read, with its file, line and reason."""


def stored_changes(path: pathlib.Path) -> Iterator[Change]:
    """Yield the changes of a stored record. The end of a killed run's file may be missing.

    Raises RecordDamaged at the first line that cannot be what was written.
    """
    states: dict[Key, Obj] = {}
    number = 0
    try:
        with gzip.open(path) as file:
            for number, text in enumerate(file, 1):
                line = orjson.loads(text)
                if number == 1:
                    schema.pop_version(line)
                else:
                    yield _read(line, states)
    except EOFError:
        return
    except (OSError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise RecordDamaged(
            f"{path}: cannot be read near line {number}: {error!r}: restore the file as the run "
            "has written it"
        ) from error


def _read(line: dict[str, Any], states: dict[Key, Obj]) -> Change:
    key = (line["resource"], line["namespace"], line["name"])
    old, new = states.pop(key, None), None
    if "deleted" not in line:
        new = line["object"] if "object" in line else merge_patch(old or {}, line["patch"])
        metadata = {**new["metadata"], "resourceVersion": line["version"]}
        new = states[key] = {**new, "metadata": metadata}
    return Change(
        *(line["at"], *key, old, new, line.get("writer", ""), line["entries"]),
        *(line.get("initial", False), line.get("skipped", False)),
    )
