from pytest_kscen.objects.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS


def test_every_namespace_is_born_with_its_account_and_certificates(world):
    world.create(NAMESPACES, "new")
    assert world.names(SERVICE_ACCOUNTS, "new") == ["default"]
    assert world.names(CONFIG_MAPS, "new") == ["kube-root-ca.crt"]


def test_they_come_again(world):
    world.delete(SERVICE_ACCOUNTS, "default")
    assert world.names(SERVICE_ACCOUNTS) == ["default"]
    world.patch(CONFIG_MAPS, "kube-root-ca.crt", {"data": {"ca.crt": "mine"}})
    assert world.get(CONFIG_MAPS, "kube-root-ca.crt")["data"]["ca.crt"] != "mine"


def test_not_in_a_namespace_that_ends(world):
    world.create(NAMESPACES, "old")
    world.delete(NAMESPACES, "old")
    world.advance(10)
    assert world.names(SERVICE_ACCOUNTS, "old") == []
