"""Time, ids and salts that tests can foresee: the same calls give the same log, byte for byte."""

from itertools import count


class SetClock:
    """A clock that tests set. Each reading moves it on by `step`, so that no two entries tie."""

    def __init__(self, now: int = 1_700_000_000_000, step: int = 1) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> int:
        now = self.now
        self.now += self.step
        return now


class CountedIds:
    """Ids and salts that count up."""

    def __init__(self, first: int = 1) -> None:
        self._ids = count(first)
        self._salts = count(first)

    def new_id(self) -> str:
        return f"id-{next(self._ids):06}"

    def salt(self) -> bytes:
        return next(self._salts).to_bytes(16, "big")
