"""Where a scheduler's configuration comes from while it runs: the ConfigMap `kube-scheduler` in
`kube-system`.

None means the default configuration. One that is wrong is refused, with a warning; the last good
one stays."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.embedded.scheduler.framework.configuration import Configuration
    from pytest_kscen.embedded.scheduler.registry import Registry
    from pytest_kscen.objects.resources import Obj

WHERE = Ref("kube-system", "kube-scheduler")
KEY = "config.yaml"
logger = logging.getLogger(__name__)


class Source:
    """Reads the ConfigMap whenever it changes, and hands on what it says; `default` is what
    holds without one.
    """

    def __init__(
        self,
        context: ControllerContext,
        registry: Registry,
        default: Configuration,
        apply: Callable[[Configuration], None],
    ) -> None:
        self.good = default
        """The last one that was not refused."""
        self._wrong = ""
        self._context = context
        self._registry = registry
        self._default = default
        self._apply = apply
        self._maps = context.informers.of(CONFIG_MAPS)
        self._maps.on_change(self._changed)

    async def synced(self) -> None:
        await self._maps.synced()

    async def latest(self) -> Configuration:
        """As the ConfigMap has it at this moment; a ValueError says what is wrong with it."""
        try:
            live = await self._context.api.get(CONFIG_MAPS, WHERE.name, WHERE.namespace)
            await self._maps.reached(live["metadata"]["resourceVersion"])
        except NotFound:
            if shown := self._maps.objects.get(WHERE):
                await self._maps.lost(WHERE, shown["metadata"]["uid"])
        if self._wrong:
            raise ValueError(self._wrong)
        return self.good

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        one = new or old
        if (
            one is None
            or Ref.of(one) != WHERE
            or (new and old and new.get("data") == old.get("data"))
        ):
            return
        try:
            self.good, self._wrong = self.read(text_of(new)) if new else self._default, ""
            self._apply(self.good)
        except ValueError as error:
            self._wrong = str(error)
            words = f"the configuration is refused, the last good one stays: {error}"
            self._context.recorder.warning(one, "InvalidConfiguration", words)
            logger.warning("%s/%s: %s", WHERE.namespace, WHERE.name, words)

    def read(self, written: str) -> Configuration:
        """A KubeSchedulerConfiguration; a ValueError says what is wrong with it."""
        from pytest_kscen.embedded.scheduler.configuration_loading import read

        return read(written, self._registry)


def text_of(config_map: Obj) -> str:
    """The KubeSchedulerConfiguration in it."""
    data = config_map.get("data") or {}
    if KEY not in data:
        raise ValueError(
            f"the ConfigMap {WHERE.name} in {WHERE.namespace} has no {KEY}{nearest(KEY, data)}"
        )
    return str(data[KEY])
