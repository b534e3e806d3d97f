"""The room of a page: what is rendered of its entries, and what was rendered in vain."""

import pytest

from roocontext.reports.markup.body import Level, Room
from roocontext.reports.markup.elements import Html, count_elements, tag, together

ENTRIES = 40


def entry(elements: int, rendered: list[int]):
    """An entry of so many elements, or of one where it is plain; notes how many are rendered."""

    def render(level: Level) -> Html:
        if not level.markdown:
            rendered.append(1)
            return tag("p", "word " * elements)
        rendered.append(elements)
        return together(tag("p", "word") for _ in range(elements))

    return render


def filled(elements: int, rendered: list[int]) -> list[Html]:
    room = Room(2_000, 64_000)
    return [room.fitted(entry(elements, rendered), ENTRIES - n - 1) for n in range(ENTRIES)]


def test_large_entries_are_not_all_rendered_in_vain():
    rendered: list[int] = []
    made = filled(3_000, rendered)
    assert [count_elements(one) for one in made] == [1] * ENTRIES
    assert sum(rendered) < 15_000


@pytest.mark.parametrize("elements", [1, 20])
def test_entries_that_fit_are_rendered_once(elements):
    rendered: list[int] = []
    made = filled(elements, rendered)
    assert [count_elements(one) for one in made] == [elements] * ENTRIES
    assert rendered == [elements] * ENTRIES


def test_short_entry_is_rendered_in_full_after_large_ones():
    rendered: list[int] = []
    room = Room(2_000, 64_000)
    for _ in range(10):
        room.fitted(entry(3_000, rendered), 20)
    assert count_elements(room.fitted(entry(20, rendered), 9)) == 20
