"""Who wants to hear of what: the plugins that turned a pod down say whether something that happened may help it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.events import EVERYTHING, TIMEOUT, ClusterEvent, Interest
from pytest_kscen.simulation.scheduler.framework.extending import EXTENDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.events import Hint
    from pytest_kscen.simulation.scheduler.framework.profile import Profile
    from pytest_kscen.simulation.scheduler.queueing.queued import QueuedPod


class Interests:
    """Of all profiles."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._all = {
            name: [(profile.name_of(plugin), interest) for plugin in profile.plugins.values() for interest in plugin.events()]
            + [(EXTENDER, Interest(EVERYTHING))]
            for name, profile in profiles.items()
        }
        self._listeners: dict[tuple[str, ClusterEvent], list[tuple[str, Hint | None]]] = {}

    def helps(self, queued: QueuedPod, event: ClusterEvent, old: Obj | None, new: Obj | None) -> bool:
        """May this pod find a node now? One that is only waited for need not back off any longer."""
        if event is TIMEOUT:
            return True
        for plugin, hint in self._listening(queued.pod.spec.get("schedulerName", ""), event):
            waited_for = plugin in queued.pending
            if (waited_for or plugin in queued.rejectors) and (hint is None or hint(queued.pod, old, new)):
                if waited_for:
                    queued.expires = -1.0
                return True
        return False

    def listeners(self, event: ClusterEvent) -> dict[str, None]:
        """The plugins, of any profile, that want to hear of this."""
        return {plugin: None for profile in self._all for plugin, _ in self._listening(profile, event)}

    def _listening(self, profile: str, event: ClusterEvent) -> list[tuple[str, Hint | None]]:
        key = profile, event
        found = self._listeners.get(key)
        if found is None:
            interests = self._all.get(profile, ())
            found = self._listeners[key] = [(plugin, one.hint) for plugin, one in interests if one.covers(event)]
        return found
