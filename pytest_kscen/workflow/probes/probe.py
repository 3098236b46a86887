"""Probe as it is written (mode, timing, weight and form), and the resilience score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.extensions import Registry
from pytest_kscen.workflow.probes.command import CommandProbe
from pytest_kscen.workflow.probes.form import FieldReader, InvalidProbe, ProbeFieldError, ProbeForm
from pytest_kscen.workflow.probes.http import HttpProbe, PrometheusProbe
from pytest_kscen.workflow.probes.kubernetes import KubernetesProbe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj


PASSED, FAILED, AWAITED = "Passed", "Failed", "Awaited"


def score_of(results: Iterable[Obj]) -> float | None:
    """Return the weighted share of probes that passed, from 0 to 100; None without probes."""
    all_of_it = held = 0
    for result in results:
        all_of_it += result.get("weight", 1)
        held += result.get("weight", 1) * (result.get("verdict") == PASSED)
    return round(100 * held / all_of_it, 2) if all_of_it else None


PROBE_FORMS: Registry[type[ProbeForm]] = Registry(
    "probes",
    "form of a probe",
    attribute="key",
    facts={
        "patience": "patience = 1.0",
        "of": "@classmethod\n    def of(cls, part): …",
        "ask": "async def ask(self, context, within): …",
    },
    built_in=(HttpProbe, CommandProbe, KubernetesProbe, PrometheusProbe),
)
"""Forms of a probe by their key in its body, as in `http: {url: …}`."""


START, END, EDGES, CONTINUOUS, ON_CHAOS = "Start", "End", "Edges", "Continuous", "OnChaos"
MODES = (START, END, EDGES, CONTINUOUS, ON_CHAOS)
KNOWN = (
    "name",
    "when",
    "interval",
    "timeout",
    "failureThreshold",
    "initialDelay",
    "stopOnFailure",
    "weight",
)
INTERVAL = 10.0


@dataclass(frozen=True, slots=True)
class Probe:
    """Definition of one probe, as its template or workflow has it; lengths are in seconds.

    Edges stands for Start and End. OnChaos probes run only while chaos at or below the node is in
    effect.
    """

    name: str
    when: str
    form: ProbeForm
    interval: float = INTERVAL
    timeout: float = 1.0
    failure_threshold: int = 1
    """Failures in a row that fail the probe; Start and End probes have as many attempts."""
    initial_delay: float = 0.0
    stop_on_failure: bool = True
    """A failed probe fails its node or workflow; otherwise it only lowers the score."""
    weight: int = 1

    @property
    def runs_at_start(self) -> bool:
        return self.when in (START, EDGES)

    @property
    def runs_at_end(self) -> bool:
        return self.when in (END, EDGES)

    @classmethod
    def of(cls, body: Any, path: str = "probe") -> Probe:
        errors: list[ProbeFieldError] = []
        part = FieldReader(body, path, errors)
        part.only([*KNOWN[:2], *PROBE_FORMS.names(), *KNOWN[2:]])
        named = [kind for kind in PROBE_FORMS.names() if part.has(kind)]
        if len(named) != 1:
            part.wrong(
                f"needs one of {', '.join(PROBE_FORMS.names())}"
                + (f", and has {' and '.join(named)}" if named else "")
            )
        kind: str = named[0] if named else ""
        form = PROBE_FORMS[kind].of(part.part(kind)) if kind else None
        probe = cls(
            name=part.text("name", required=True),
            when=part.choice("when", MODES),
            form=form,  # type: ignore[arg-type]  # without one it is refused below
            interval=part.length("interval", INTERVAL, above_zero=True),
            timeout=part.length("timeout", form.patience if form else 1.0, above_zero=True),
            failure_threshold=part.whole("failureThreshold", 1, 1),
            initial_delay=part.length("initialDelay", 0.0),
            stop_on_failure=part.flag("stopOnFailure", default=True),
            weight=part.whole("weight", 1, 0),
        )
        if errors:
            raise InvalidProbe(errors)
        return probe


def probes_of(bodies: Iterable[Obj] | None, path: str = "probes") -> tuple[Probe, ...]:
    """Read the probes of a node or workflow, whose names must differ; raise InvalidProbe."""
    probes: dict[str, Probe] = {}
    errors: list[ProbeFieldError] = []
    if not isinstance(bodies, list | tuple | None):
        raise InvalidProbe([ProbeFieldError(path, "must be a list")])
    for number, body in enumerate(bodies or ()):
        place = f"{path}[{number}]"
        try:
            probe = Probe.of(body, place)
        except InvalidProbe as wrong:
            errors.extend(wrong.errors)
            continue
        if probe.name in probes:
            errors.append(
                ProbeFieldError(f"{place}.name", f"there is another probe {probe.name!r}")
            )
        probes[probe.name] = probe
    if errors:
        raise InvalidProbe(errors)
    return tuple(probes.values())
