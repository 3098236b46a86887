"""Validation of a Scenario and its expectations by the controller's rules, without a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.documents import DocumentRefused
from pytest_kscen.objects.scenarios import EVERY
from pytest_kscen.scenario import operation_ids
from pytest_kscen.scenario.builtin_waiters import waiters_where_served
from pytest_kscen.scenario.expectations import ScenarioExpectations
from pytest_kscen.scenario.files import read_from_file
from pytest_kscen.scenario.models import ScenarioSpec, read
from pytest_kscen.scenario.operations import faults
from pytest_kscen.scenario.participants import BY_CLOCK, ControllerRegister, Participants
from pytest_kscen.scenario.waiting import Waiter
from pytest_kscen.scenario.writes import WITHOUT_WAITER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kscen.objects.documents import Document


def errors(document: Document) -> Iterator[str]:
    """Yield the errors, with file and line, for which a Scenario would be refused or fail."""
    try:
        spec = _spec_of(document)
    except DocumentRefused as refusal:
        yield from str(refusal).splitlines()
        return
    for place, why in faults(spec.operations):
        yield f"{document.at('spec', 'operations', str(place))} {why}"
    register = _known()
    for name in _unknown_controllers(spec, register):
        register.add(Waiter(name, {}))
    if why := Participants.of(register, spec).find_error(spec):
        yield f"{document.at('spec', 'controllers')} {why}"


def warnings(document: Document) -> Iterator[str]:
    """Yield warnings with file and line: operations after the end, and controllers that only a
    waiter registered elsewhere may make valid.
    """
    try:
        spec = _spec_of(document)
    except DocumentRefused:
        return
    ends = min(
        (each.step for each in spec.operations if each.done is not None and each.step > 0),
        default=None,
    )
    for place, each in enumerate(spec.operations):
        if ends is not None and each.step > ends:
            yield (
                f"{document.at('spec', 'operations', str(place))} operation {each.id!r} is "
                f"never performed: step {ends} is the last"
            )
    register = _known()
    for name in _unknown_controllers(spec, register):
        hint = nearest(name, [*register.waiters, *WITHOUT_WAITER])
        yield (
            f"{document.at('spec', 'controllers')} there is no controller {name!r}{hint}: "
            "register a waiter of that name for the run that plays it"
        )


def wrong_expectations(document: Document, scenarios: Sequence[Document]) -> Iterator[str]:
    """Yield the errors of expectations, with file and line. `scenarios` are the Scenarios of the
    same file.
    """
    try:
        ScenarioExpectations.of(document)
    except DocumentRefused as refusal:
        yield from str(refusal).splitlines()
    names, of = [each.name for each in scenarios], document.content.get("scenario")
    if of is None and len(names) > 1:
        yield (
            f"{document.at()} expectations need the name of their scenario: write scenario: NAME; "
            f"there are {', '.join(names)}"
        )
    elif of is not None and of not in names:
        yield (
            f"{document.at('scenario')} there is no Scenario {of!r}{nearest(str(of), names)}; "
            f"there is {', '.join(names)}"
        )


def _spec_of(document: Document) -> ScenarioSpec:
    scenario = read_from_file(document)
    given = scenario["spec"]
    return read(
        ScenarioSpec,
        {**given, "operations": operation_ids.filled(scenario) or given.get("operations")},
    )


def _known() -> ControllerRegister:
    register = ControllerRegister()
    for waiter in waiters_where_served():
        register.add(waiter, replace=True)
    return register


def _unknown_controllers(spec: ScenarioSpec, register: ControllerRegister) -> list[str]:
    chosen = [*spec.controllers.simulated.enabled]
    if before := spec.controllers.before:
        chosen += [*before.enabled, *before.disabled]
    ours = {EVERY, *register.waiters, *WITHOUT_WAITER, *BY_CLOCK}
    return [name for name in dict.fromkeys(each.name for each in chosen) if name not in ours]
