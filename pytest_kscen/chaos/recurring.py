"""How profiles pass their time: a pause, an incident, its end, and again until the signal. Nothing ends it for good."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from pytest_kscen.chaos.hands import Hands, Impossible
from pytest_kscen.chaos.incidents import PASSING, Fault, Incident, cause
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.objects.numbers import valid_range

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Actor, Stage


class Recurring(Protocol):
    """A profile whose incidents come after pauses and last for a drawn time."""

    @property
    def profile(self) -> str: ...
    @property
    def period(self) -> tuple[float, float]: ...
    @property
    def incident(self) -> tuple[float, float]: ...


async def recur(
    stage: Stage, stop: Signal, profile: Recurring, kind: str, draw: Callable[[Hands, float], Awaitable[Fault]]
) -> None:
    """One incident after the other. `draw` says which, given how long it will last."""
    hands = Hands.of(stage, stage.one_more(kind))
    actor = hands.nested
    async with Observer.of(stage).held():
        while not await stop.within(actor.chance.between(*profile.period)):
            seconds = actor.chance.between(*profile.incident)
            try:
                incident = await cause(stage, await draw(hands, seconds), by=actor.name)
            except PASSING as error:
                skipped(actor, profile.profile, error)
                continue
            try:
                await stop.within(seconds)
            finally:
                await ended(incident)


async def ended(incident: Incident) -> None:
    """End it; that it cannot be undone stands in the journal, and is no reason to stop everything else."""
    try:
        await incident.end()
    except PASSING as error:
        incident.hands.nested.log(logging.ERROR, "cannot be undone", incident=incident.id, error=repr(error))


def skipped(actor: Actor, profile: str, error: Exception) -> None:
    """Say why there is no incident this time."""
    why = str(error) if isinstance(error, Impossible) else repr(error)
    actor.note("incident-skipped", profile=profile, why=why)
    actor.log(logging.WARNING, "no incident this time", profile=profile, why=why)


def drawn(chance: Stream, variants: Sequence[str], weights: Mapping[str, int]) -> str:
    """One of the variants, each as likely as its weight: with all of them, a number from 0 to 99 decides."""
    possible = {variant: weight for variant, weight in weights.items() if variant in variants}
    number = chance.below(sum(possible.values()))
    for variant, weight in possible.items():
        number -= weight
        if number < 0:
            return variant
    raise ValueError("there is nothing to draw from")


def valid_times(profile: Recurring) -> None:
    valid_range("period", profile.period)
    valid_range("incident", profile.incident)


def valid_variants(variants: object, known: Mapping[str, int]) -> None:
    if not isinstance(variants, tuple) or not variants or any(variant not in known for variant in variants):
        raise ValueError(f"variants={variants!r}: give one or more of {', '.join(known)}")
