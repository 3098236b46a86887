"""What a plugin answers, and what it is, is what the framework can work with; if not, it is said
whose and what.
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
A_STATUS = "None or a status, as unschedulable('why')"
NEAR = 0.88  # of letters that a method has in common with one that was meant


class WrongAnswer(TypeError):
    """It names plugin and method."""

    def __init__(self, plugin: str, method: str, answer: object, wanted: str) -> None:
        super().__init__(f"it answers {answer!r}, and has to answer {wanted}")
        self.plugin = plugin
        self.method = method


def a_status(answer: Any, plugin: str, method: str) -> Status | None:
    if answer is None or isinstance(answer, Status):
        return answer
    raise WrongAnswer(plugin, method, answer, A_STATUS)


def a_status_or_names(answer: Any, plugin: str) -> Status | Collection[str] | None:
    if answer is None or isinstance(answer, Status):
        return answer
    if isinstance(answer, str) or not hasattr(answer, "__iter__"):
        raise WrongAnswer(plugin, "pre_filter", answer, f"{A_STATUS}, or the names of nodes")
    return answer  # type: ignore[no-any-return]  # as far as it matters


def a_nomination(answer: Any, plugin: str) -> Status | Nomination | None:
    if answer is None or isinstance(answer, Status | Nomination):
        return answer
    raise WrongAnswer(plugin, "post_filter", answer, f"a Nomination, {A_STATUS}")


def awaitable(answer: Awaitable[T], plugin: str, method: str) -> Awaitable[T]:
    if inspect.isawaitable(answer):
        return answer
    raise WrongAnswer(plugin, method, answer, "something to be awaited: it is async")


def numbers(answers: Any, plugin: str, method: str, count: int) -> Sequence[int]:
    """So many scores."""
    if not isinstance(answers, list | tuple) or len(answers) != count:
        raise WrongAnswer(plugin, method, answers, f"a list of {count} numbers, one for each node")
    for each in answers:
        if type(each) is not int and (isinstance(each, bool) or not isinstance(each, Real)):
            raise WrongAnswer(plugin, method, each, "a whole number")
    return answers


def refuse_what_is_none(cls: Any, path: str = "") -> None:
    """A ValueError if this can be no plugin: it is no class of ours, or has a method that is
    almost one of a plugin's.
    """
    if not (isinstance(cls, type) and issubclass(cls, Plugin)):
        raise ValueError(  # noqa: TRY004  # the configuration is wrong, not the code
            f"{(path or cls)!r} is no plugin: derive it from "
            "pytest_kscen.embedded.scheduler.framework.Plugin"
        )
    for method in POINTS.values():
        ours, theirs = getattr(Plugin, method), getattr(cls, method)
        if inspect.iscoroutinefunction(theirs) and not inspect.iscoroutinefunction(ours):
            raise ValueError(
                f"the plugin {cls.name!r}: {method} must not be async: nobody awaits it"
            )
    for own in _own(cls):
        for method in POINTS.values():
            if getattr(cls, method) is getattr(Plugin, method) and _is_near(own, method):
                raise ValueError(
                    f"the plugin {cls.name!r} has a method {own!r} that nobody calls (did "
                    f"you mean {method!r}?): "
                    "if it is a helper, let its name begin with _"
                )


def _own(cls: type[Plugin]) -> list[str]:
    """The methods that are not a plugin's."""
    names = dict.fromkeys(
        name for each in cls.__mro__ if issubclass(each, Plugin) for name in vars(each)
    )
    return [
        name
        for name in names
        if not name.startswith("_") and not hasattr(Plugin, name) and callable(getattr(cls, name))
    ]


def _is_near(name: str, method: str) -> bool:
    a, b = (each.lower().replace("_", "") for each in (name, method))
    return difflib.SequenceMatcher(None, a, b).ratio() >= NEAR


# A plugin that raises ends its scheduler, which says whose fault it was, at which point and
# about which pod.


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
    return PluginFailed(
        f"the plugin {plugin!r} has failed in {method} for the pod "
        f"{pod.namespace}/{pod.name}: {why}"
    )
