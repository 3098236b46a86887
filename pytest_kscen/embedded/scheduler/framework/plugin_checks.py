"""Checks of plugin classes and of their results, with errors that name the plugin.

Called by the registry and by profiles. An error in a plugin ends the scheduler with a message that
names the plugin, the method and the pod.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import traceback
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kscen.embedded.scheduler.framework.plugin import POINTS, Plugin
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import Nomination
from pytest_kscen.embedded.scheduler.framework.status import Status
from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Iterator, Sequence

    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo


T = TypeVar("T")
STATUS_FORM = "None or a status, as unschedulable('why')"
MISSPELLING_SIMILARITY = (
    0.88  # ratio of common letters from which a method's name is taken for a misspelling
)


class InvalidPluginResult(TypeError):
    """Result of a wrong type or size; raised at the call and turned into `PluginFailed` with the
    pod's name by `attribute_plugin_errors`.
    """

    def __init__(self, plugin: str, method: str, answer: object, wanted: str) -> None:
        super().__init__(f"returned {answer!r}, expected {wanted}")
        self.plugin = plugin
        self.method = method


def check_status(answer: Any, plugin: str, method: str) -> Status | None:
    if answer is None or isinstance(answer, Status):
        return answer
    raise InvalidPluginResult(plugin, method, answer, STATUS_FORM)


def check_pre_filter_result(answer: Any, plugin: str) -> Status | Collection[str] | None:
    if answer is None or isinstance(answer, Status):
        return answer
    if isinstance(answer, str) or not hasattr(answer, "__iter__"):
        raise InvalidPluginResult(
            plugin, "pre_filter", answer, f"{STATUS_FORM}, or the names of nodes"
        )
    return answer  # type: ignore[no-any-return]  # as far as it matters


def check_nomination(answer: Any, plugin: str) -> Status | Nomination | None:
    if answer is None or isinstance(answer, Status | Nomination):
        return answer
    raise InvalidPluginResult(plugin, "post_filter", answer, f"a Nomination, {STATUS_FORM}")


def check_awaitable(answer: Awaitable[T], plugin: str, method: str) -> Awaitable[T]:
    if inspect.isawaitable(answer):
        return answer
    raise InvalidPluginResult(plugin, method, answer, "an awaitable: the method must be async")


def check_scores(answers: Any, plugin: str, method: str, count: int) -> Sequence[int]:
    """Return the scores if they are `count` numbers, one for each node in order; otherwise raise
    InvalidPluginResult.
    """
    if not isinstance(answers, list | tuple) or len(answers) != count:
        raise InvalidPluginResult(
            plugin, method, answers, f"a list of {count} numbers, one for each node"
        )
    for each in answers:
        if type(each) is not int and (isinstance(each, bool) or not isinstance(each, Real)):
            raise InvalidPluginResult(plugin, method, each, "a whole number")
    return answers


def check_plugin_class(cls: Any, path: str = "") -> None:
    """Raise ValueError if a class cannot be used as a plugin: it is not derived from Plugin, an
    extension point is async that must not be, or a method's name is a near miss of one.
    """
    if not (isinstance(cls, type) and issubclass(cls, Plugin)):
        raise ValueError(  # noqa: TRY004  # the configuration is wrong, not the code
            f"{(path or cls)!r} is not a plugin class: derive it from pytest_kscen.scheduler.Plugin"
        )
    for method in POINTS.values():
        base_method, own_method = getattr(Plugin, method), getattr(cls, method)
        if inspect.iscoroutinefunction(own_method) and not inspect.iscoroutinefunction(base_method):
            raise ValueError(
                f"the plugin {cls.name!r}: {method} must not be async: it is called without await"
            )
    names = dict.fromkeys(
        name for each in cls.__mro__ if issubclass(each, Plugin) for name in vars(each)
    )
    for own in names:
        if own.startswith("_") or hasattr(Plugin, own) or not callable(getattr(cls, own)):
            continue
        for method in POINTS.values():
            similarity = difflib.SequenceMatcher(
                None, own.lower().replace("_", ""), method.replace("_", "")
            ).ratio()
            missing = getattr(cls, method) is getattr(Plugin, method)
            if missing and similarity >= MISSPELLING_SIMILARITY:
                raise ValueError(
                    f"the plugin {cls.name!r} has a method {own!r} that is no extension point (did "
                    f"you mean {method!r}?): "
                    "rename it, or begin the name of a helper with _"
                )


class PluginFailed(RuntimeError):
    """Exception in a plugin, or a result of the wrong kind. The message names plugin, method and
    pod; it ends the scheduler and with it the run.
    """


@contextlib.contextmanager
def attribute_plugin_errors(pod: PodInfo) -> Iterator[None]:
    """Turn exceptions raised by a plugin's code in this block into PluginFailed. API errors and
    network errors pass unchanged, as the plugin cannot be blamed for them.
    """
    try:
        yield
    except (ApiError, OSError, PluginFailed):
        raise
    except InvalidPluginResult as error:
        raise _plugin_failed(error.plugin, error.method, pod, str(error)) from error
    except Exception as error:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            plugin = frame.f_locals.get("self")
            if isinstance(plugin, Plugin):
                raise _plugin_failed(plugin.name, frame.f_code.co_name, pod, repr(error)) from error
        raise


def _plugin_failed(plugin: str, method: str, pod: PodInfo, why: str) -> PluginFailed:
    return PluginFailed(
        f"the plugin {plugin!r} failed in {method} for the pod {pod.namespace}/{pod.name}: {why}"
    )
