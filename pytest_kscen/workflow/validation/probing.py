"""Probes: whoever asks them says what is wrong with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.workflow.expressions import oddity_in
from pytest_kscen.workflow.probes import WrongProbe, probes_of
from pytest_kscen.workflow.probes.forms.command import Command
from pytest_kscen.workflow.validation.fault import Fault, error, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.documents import Path

STEP = re.compile(r"[^.\[\]]+")


def faults_of_probes(probes: Any, path: Path) -> Iterator[Fault]:
    try:
        for number, probe in enumerate(probes_of(probes, "probes")):
            if isinstance(probe.form, Command) and (odd := oddity_in(probe.form.expression)):
                yield warning((*path, str(number), "command", "expression"), odd)
    except WrongProbe as wrong:
        for mistake in wrong.mistakes:
            below = STEP.findall(mistake.path)[1:]
            yield error((*path, *below), f"{below[-1] if below and not below[-1].isdigit() else 'it'} {mistake.message}")
