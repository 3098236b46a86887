"""The life of a volume, from its creation to its end."""

from __future__ import annotations

from storage_yard import RV, RVA


def test_a_volume_becomes_ready_is_attached_and_goes(yard):
    yard.volume()
    assert 2 < yard.until(yard.is_whole) < 20
    assert yard.kinds() == "3D"
    assert len(set(yard.nodes())) == 3
    node = yard.nodes()[0]
    yard.attach(node)
    yard.until(lambda: yard.of_attachment(node).get("Ready") == ("True", "Ready"))
    assert yard.status(RV, "v")["actuallyAttachedTo"] == [node]
    yard.detach(node)
    yard.until(lambda: yard.get(RVA, f"rva-v-{node}") is None)
    yard.delete(RV, "v")
    yard.until(lambda: yard.get(RV, "v") is None)
    assert yard.replicas() == []
