def test_partition_is_reported_after_it_starts_and_removed_before_its_object(mesh_cluster):
    mesh_cluster.pod("a", node="node-1")
    mesh_cluster.pod("b", node="node-2")
    mesh_cluster.pod("other", node="node-2")
    mesh_cluster.cluster.advance(10)
    assert not mesh_cluster.cut("a", "b")
    target = {"mode": "all", "selector": {"labelSelectors": {"app": "b"}}}
    mesh_cluster.chaos("NetworkChaos", app="a", action="partition", direction="to", target=target)
    mesh_cluster.cluster.advance(0)
    assert mesh_cluster.conditions("NetworkChaos") == "SI"
    assert mesh_cluster.phases("NetworkChaos") == {"default/a": "Injected", "default/b": "Injected"}
    assert [
        mesh_cluster.cut(*pair) for pair in (("a", "b"), ("b", "a"), ("a", "other"), ("other", "a"))
    ] == [True, False, False, False]
    mesh_cluster.delete("NetworkChaos")
    mesh_cluster.cluster.advance(0)
    assert mesh_cluster.see("NetworkChaos") is None
    assert not mesh_cluster.cut("a", "b")


def test_pod_kill_is_reported_after_the_pod_is_deleted(mesh_cluster):
    for name in "ab":
        mesh_cluster.pod(name, app="x")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("PodChaos", app="x", mode="one", action="pod-kill")
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.conditions("PodChaos") == "SI"
    (killed,) = mesh_cluster.phases("PodChaos")
    assert killed.removeprefix("default/") not in mesh_cluster.pods()
    assert len(mesh_cluster.pods()) == 1
    mesh_cluster.delete("PodChaos")
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.see("PodChaos") is None


def test_empty_selection_is_reported(mesh_cluster):
    mesh_cluster.chaos("PodChaos", app="nobody", action="pod-kill")
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.conditions("PodChaos") == ""
    assert ("Failed", "Failed to select targets: no pod is selected") in mesh_cluster.events()
    mesh_cluster.delete("PodChaos")
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.see("PodChaos") is None
