"""A plugin that raises ends its scheduler, which says whose fault it was, at which point and about which pod."""

from __future__ import annotations

import contextlib
import traceback
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import ApiError
from pytest_kscen.simulation.scheduler.framework.answers import WrongAnswer
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo


class PluginFailed(RuntimeError):
    """The words name plugin, point and pod."""


@contextlib.contextmanager
def blaming(pod: PodInfo) -> Iterator[None]:
    """What a plugin raises in here is its own; what the API says is everybody's."""
    try:
        yield
    except (ApiError, OSError, PluginFailed):
        raise
    except WrongAnswer as error:
        raise _failed(error.plugin, error.method, pod, str(error)) from error
    except Exception as error:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            plugin = frame.f_locals.get("self")
            if isinstance(plugin, Plugin):
                raise _failed(plugin.name, frame.f_code.co_name, pod, repr(error)) from error
        raise


def _failed(plugin: str, method: str, pod: PodInfo, why: str) -> PluginFailed:
    return PluginFailed(f"the plugin {plugin!r} has failed in {method} for the pod {pod.namespace}/{pod.name}: {why}")
