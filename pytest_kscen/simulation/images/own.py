"""Programs of the simulation's own: what an API refuses may end their container; a mistake of theirs ends the simulation.

A container that starts again would hide it, and a run in which nothing was done by then would be valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    from pytest_kscen.simulation.images.context import ContainerContext
    from pytest_kscen.simulation.images.registry import Behaviour


class SimulationMistake(Exception):  # it is told as what it is
    """A program of the simulation's own failed, and nobody had refused it anything."""


def own(run: Behaviour, *ends: type[Exception]) -> Behaviour:
    """The same behaviour, in which only refusals and these are a crash of the container."""

    refusals: tuple[type[Exception], ...] = (ApiError, OSError, *ends)

    async def program(container: ContainerContext) -> int:
        try:
            return await run(container)
        except refusals:
            raise
        except Exception as error:
            pod = container.pod["metadata"]["name"]
            raise SimulationMistake(f"the simulated {container.name} in {pod} failed: {error!r}") from error

    return program
