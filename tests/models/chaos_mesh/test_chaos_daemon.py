def test_partition_is_reported_after_it_starts_and_removed_before_its_object(mesh):
    mesh.pod("a", node="node-1")
    mesh.pod("b", node="node-2")
    mesh.pod("other", node="node-2")
    mesh.cluster.advance(10)
    assert not mesh.cut("a", "b")
    target = {"mode": "all", "selector": {"labelSelectors": {"app": "b"}}}
    mesh.chaos("NetworkChaos", app="a", action="partition", direction="to", target=target)
    mesh.cluster.advance(0)
    assert mesh.conditions("NetworkChaos") == "SI"
    assert mesh.phases("NetworkChaos") == {"default/a": "Injected", "default/b": "Injected"}
    assert [
        mesh.cut(*pair) for pair in (("a", "b"), ("b", "a"), ("a", "other"), ("other", "a"))
    ] == [True, False, False, False]
    mesh.delete("NetworkChaos")
    mesh.cluster.advance(0)
    assert mesh.see("NetworkChaos") is None
    assert not mesh.cut("a", "b")


def test_pod_kill_is_reported_after_the_pod_is_deleted(mesh):
    for name in "ab":
        mesh.pod(name, app="x")
    mesh.cluster.advance(10)
    mesh.chaos("PodChaos", app="x", mode="one", action="pod-kill")
    mesh.cluster.advance(1)
    assert mesh.conditions("PodChaos") == "SI"
    (killed,) = mesh.phases("PodChaos")
    assert killed.removeprefix("default/") not in mesh.pods()
    assert len(mesh.pods()) == 1
    mesh.delete("PodChaos")
    mesh.cluster.advance(1)
    assert mesh.see("PodChaos") is None


def test_empty_selection_is_reported(mesh):
    mesh.chaos("PodChaos", app="nobody", action="pod-kill")
    mesh.cluster.advance(1)
    assert mesh.conditions("PodChaos") == ""
    assert ("Failed", "Failed to select targets: no pod is selected") in mesh.events()
    mesh.delete("PodChaos")
    mesh.cluster.advance(1)
    assert mesh.see("PodChaos") is None
