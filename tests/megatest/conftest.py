import pytest
from tiny_storage import World


@pytest.fixture
def build():
    worlds = []

    def build(*args, **more):
        worlds.append(World(*args, **more))
        return worlds[-1]

    yield build
    for world in worlds:
        world.close()


@pytest.fixture
def world(build):
    return build()
