"""Story of one volume, from a run's journal: actions, changes of health, and faults on its nodes.

The command `story`, the archive and Allure print it; nothing but the journal is read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.judge.verdict import DELETE
from pytest_kscen.objects.arguments import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.journal import Entry

HIDDEN = (
    "volume",
    "action",
    "result",
    "took",
    "available",
    "possibly_done",
    "patience",
    "incident",
)


UUID = re.compile(r"([0-9a-f]{4})[0-9a-f]{4}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def story(journal: Iterable[Entry], volume: str) -> Iterator[str]:
    """Yield a line for each event of the volume, in order. The journal is read once.

    Uuids, as in the names of volumes, are shortened to their first four digits.
    """
    faults = _Faults(volume)
    for entry in journal:
        yield from _lines(entry, volume, faults)


def stories(journal: Iterable[Entry], volumes: Iterable[str]) -> dict[str, list[str]]:
    """Return the lines of several volumes by name.

    The journal is read once for all of them, and not at all without volumes.
    """
    found: dict[str, list[str]] = {volume: [] for volume in volumes}
    faults = {volume: _Faults(volume) for volume in found}
    for entry in journal if found else ():
        for volume in (
            found
            if entry.what == "incident-started" or entry.what in _FAULT_EVENTS
            else [entry.data.get("volume")]
        ):
            if volume in found:
                found[volume] += _lines(entry, volume, faults[volume])
    return found


def _lines(entry: Entry, volume: str, faults: _Faults) -> Iterator[str]:
    try:
        for line in _events(entry, volume, faults):
            yield UUID.sub(r"\1…", line)
    except (KeyError, TypeError, ValueError, AttributeError) as missing:
        yield _line(entry, f"{entry.what}: incomplete journal entry: {missing!r}")


def _events(entry: Entry, volume: str, faults: _Faults) -> Iterator[str]:
    if entry.what == "incident-started":
        yield from faults.begun(entry)
    elif entry.what in _FAULT_EVENTS:
        yield from faults.reported(entry)
    elif entry.data.get("volume") == volume and entry.what in _EVENTS:
        if entry.what == "volume-disappeared" and faults.deletion_is_requested:
            yield _line(entry, "deleted by the run")
            return
        yield _line(entry, _EVENTS[entry.what](entry.data))
        if entry.what == "volume":
            faults.deletion_is_requested = False
        elif entry.what == "volume-placed":
            yield from faults.placed(entry)
        elif entry.what == "began" and entry.data["action"] == DELETE:
            faults.deletion_is_requested = True
        elif (
            entry.what == "ended"
            and entry.data["action"] == DELETE
            and entry.data["result"] == "done"
        ):
            faults.forget()


class _Faults:
    """Incidents of a run that concern one volume: incidents on its nodes, and effects on it.

    Filled entry by entry, in the order of the journal.
    """

    def __init__(self, volume: str) -> None:
        self._volume = volume
        self._nodes: list[str] = []
        self._active: dict[str, dict[str, Any]] = {}
        self._shown: dict[str, str] = {}
        self._is_deleted = False
        self.deletion_is_requested = False
        """True once the run begins to delete the volume: what follows is no disappearance."""

    def begun(self, entry: Entry) -> Iterator[str]:
        self._active[entry.data["incident"]] = entry.data
        yield from self._fault_lines(entry, entry.data, "begins")

    def placed(self, entry: Entry) -> Iterator[str]:
        """Yield faults that were active before the volume was placed on their nodes.

        A fault that was shown before is left out.
        """
        self._nodes = entry.data["nodes"]
        for fault in self._active.values():
            if fault["incident"] not in self._shown:
                yield from self._fault_lines(entry, fault, "is already active")

    def forget(self) -> None:
        self._nodes = []
        self._is_deleted = True

    def reported(self, entry: Entry) -> Iterator[str]:
        fault = entry.data["incident"]
        named = entry.data.get("volumes") or (
            [entry.data["volume"]] if "volume" in entry.data else []
        )
        is_concerned = self._volume in named if named else not self._is_deleted
        if fault in self._shown and is_concerned:
            yield _line(entry, f"{self._shown[fault]} {_FAULT_EVENTS[entry.what](entry.data)}")
        if entry.what == "incident-ended":
            del self._active[fault]

    def _fault_lines(self, entry: Entry, fault: dict[str, Any], how: str) -> Iterator[str]:
        targets, variant = fault["targets"], fault["variant"]
        where = [node for node in targets.get("nodes", ()) if node in self._nodes]
        if where or self._volume in targets.get("volumes", ()):
            self._shown[fault["incident"]] = f"{variant} ({fault['incident']})"
            sides = fault.get("sides", ())
            place = f"on {', '.join(where) or self._volume}"
            if len(sides) > 1:  # show both sides, because the volume may move to the other one
                place = f"between {' and '.join(map(', '.join, sides))}"
            yield _line(entry, f"{kind_of_fault(fault['profile'], variant)} {how} {place}")


def kind_of_fault(profile: str, variant: str) -> str:
    return variant if variant == profile else f"{profile} {variant}"


def _line(entry: Entry, text: str) -> str:
    return f"{in_words(entry.at):>10}  {entry.actor.partition('/')[0]:<24}  {text}"


def _particulars(data: dict[str, Any]) -> str:
    words = []
    for name, value in data.items():
        if name in HIDDEN or value in (None, []):
            continue
        if name == "lifetime":
            text = in_words(value)
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        words.append(f"{name} {text}")
    return f" ({', '.join(words)})" if words else ""


def _changed(data: dict[str, Any]) -> str:
    why = ": ".join(filter(None, (data.get("reason"), data.get("details"))))
    how = " again" if data["observed"] == "True" else f", expected {data['expected']}"
    return f"{data['condition']} is {data['observed']}{how}{': ' + why if why else ''}"


def reasons_not_ready(data: dict[str, Any]) -> str:
    """Return the reasons why a volume is not ready, from the data of an entry `not-ready`.

    Its conditions come first, then the False conditions of its replicas.
    """
    reasons = (
        f"{name} is {': '.join(filter(None, (seen['status'], seen['reason'], seen['message'])))}"
        for name, seen in data["conditions"].items()
    )
    return "; ".join([*reasons, *([_replicas(data)] if data["replicas"] else [])])


def _replicas(data: dict[str, Any]) -> str:
    if not data["replicas"]:
        return "no condition of its replicas is False"
    reasons = (
        f"{name}: {', '.join(map(str, conditions))}"
        for name, conditions in data["replicas"].items()
    )
    return f"replicas' conditions that are False: {'; '.join(reasons)}"


_EVENTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "volume": lambda data: f"requested{_particulars(data)}",
    "began": lambda data: f"{data['action']} begins{_particulars(data)}",
    "ended": lambda data: (
        f"{data['action']}: {data['result']} after {data['took']:g} s{_particulars(data)}"
    ),
    "volume-placed": lambda data: f"has replicas on {', '.join(data['nodes']) or 'no node'}",
    "volume-disappeared": lambda _: "disappeared",
    "replicas-restored": lambda _: "all disks are replaced and up to date",
    "attached": lambda data: f"is attached to {data['node']}",
    "not-ready": reasons_not_ready,
    "ready": lambda _: "is ready",
    "checker-started": lambda data: f"check started: {', '.join(data['conditions'])}",
    "condition-changed": _changed,
    "replicas-false": _replicas,
    "checker-stopped": lambda data: (
        "check ended: "
        f"{', '.join(f'{name} {status}' for name, status in data['conditions'].items())}"
    ),
    "check-crashed": lambda data: f"its checker crashed: {data['error']}",
    "never-ready": lambda data: f"was not ready within {data['waited']:g} s",
    "not-deleted": lambda data: f"could not be deleted yet: {data['why']}",
    "never-gone": lambda data: (
        f"was not deleted within {data['waited']:g} s{': ' + data['why'] if data['why'] else ''}"
    ),
}
_FAULT_EVENTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "incident-failed": lambda data: f"could not be injected completely: {data['error']}",
    "incident-effect": lambda data: f"has an effect: {data['effect']}",
    "incident-possible-effect": lambda data: f"has a possible effect: {data['effect']}",
    "incident-refused": lambda data: (
        f"had no effect on {', '.join(data['nodes'])}: request refused"
    ),
    "incident-lasting": lambda _: "stays active until the checks end",
    "incident-ended": lambda data: f"ends after {data['lasted']:g} s",
    "incident-not-undone": lambda data: f"may not be undone: {data['error']}",
    "incident-recovered": lambda data: f"recovered {data['took']:g} s after its end",
    "incident-overtaken": lambda data: (
        f"was overtaken by {', '.join(data['by'])} before it recovered"
    ),
    "incident-target-deleted": lambda data: (
        f"has no recovery time, an object in trouble was deleted: {'; '.join(data['left'])}"
    ),
    "incident-overlapping": lambda data: (
        f"recovered together with {', '.join(data['others'])}: its own recovery time is unknown"
    ),
    "incident-unrecovered": lambda data: (
        f"did not recover within {data['waited']:g} s: {'; '.join(data['left'])}"
    ),
}
