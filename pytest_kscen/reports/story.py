"""One volume's story from a run's journal: what was done to it, what became of it, and the faults on its nodes meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.durations import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.journal import Entry

HIDDEN = ("volume", "action", "result", "took", "incident")


def story(journal: Iterable[Entry], volume: str) -> Iterator[str]:
    """A line for each thing that happened, in its order; the journal is read once."""
    nodes: set[str] = set()
    touching: dict[str, str] = {}
    for entry in journal:
        data = entry.data
        if entry.what == "volume-placed" and data["volume"] == volume:
            nodes |= set(data["nodes"])
        if data.get("volume") == volume and entry.what in _TOLD:
            yield _line(entry, _TOLD[entry.what](data))
        elif entry.what == "incident-started":
            where = [node for node in data["targets"].get("nodes", ()) if node in nodes]
            if where or volume in data["targets"].get("volumes", ()):
                touching[data["incident"]] = f"{data['variant']} ({data['incident']})"
                yield _line(entry, f"{data['profile']} {data['variant']} begins on {', '.join(where) or volume}")
        elif data.get("incident") in touching and entry.what in _OF_FAULTS:
            yield _line(entry, _OF_FAULTS[entry.what](touching[data["incident"]], data))


def _line(entry: Entry, said: str) -> str:
    return f"{in_words(entry.at):>10}  {entry.who.partition('/')[0]:<24}  {said}"


def _particulars(data: dict[str, Any]) -> str:
    said = ", ".join(f"{name} {value}" for name, value in data.items() if name not in HIDDEN)
    return f" ({said})" if said else ""


def _changed(data: dict[str, Any]) -> str:
    why = ": ".join(filter(None, (data.get("reason"), data.get("details"))))
    return f"{data['condition']} is {data['observed']}, expected {data['expected']}{': ' + why if why else ''}"


def _replicas(data: dict[str, Any]) -> str:
    told = (f"{name}: {', '.join(map(str, conditions))}" for name, conditions in data["replicas"].items())
    return f"replicas' conditions that are False: {'; '.join(told)}"


_TOLD: dict[str, Callable[[dict[str, Any]], str]] = {
    "volume": lambda data: f"wanted{_particulars(data)}",
    "began": lambda data: f"{data['action']} begins{_particulars(data)}",
    "ended": lambda data: f"{data['action']}: {data['result']} after {data['took']:g} s{_particulars(data)}",
    "volume-placed": lambda data: f"has replicas on {', '.join(data['nodes']) or 'no node'}",
    "ready": lambda _: "is ready",
    "checker-started": lambda data: f"is checked: {', '.join(data['conditions'])}",
    "condition-changed": _changed,
    "replicas-false": _replicas,
    "checker-stopped": lambda data: f"is checked no more: {_stopped(data['conditions'])}",
    "check-crashed": lambda data: f"its checker crashed: {data['error']}",
    "never-ready": lambda data: f"was not ready within {data['waited']:g} s",
    "never-gone": lambda data: f"was not gone within {data['waited']:g} s",
}
_OF_FAULTS: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "incident-effect": lambda fault, data: f"{fault} has an effect: {data['effect']}",
    "incident-ended": lambda fault, data: f"{fault} ends after {data['lasted']:g} s",
    "incident-recovered": lambda fault, data: f"{fault} is recovered from, {data['took']:g} s after its end",
    "incident-unrecovered": lambda fault, data: f"{fault} is not recovered from within {data['waited']:g} s: {'; '.join(data['left'])}",
}


def _stopped(conditions: dict[str, str]) -> str:
    return ", ".join(f"{name} {status}" for name, status in conditions.items())
