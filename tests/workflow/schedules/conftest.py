import pytest
from timetable import Timetable


@pytest.fixture
def timetable(request):
    timetable = Timetable(request.node.name)
    yield timetable
    timetable.close()
