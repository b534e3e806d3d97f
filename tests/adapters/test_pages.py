"""The adapters' pages, executed with the frameworks installed."""

from pathlib import Path

import pytest

from acceptance.test_docs import FRAMEWORKS, name_of, run


@pytest.mark.parametrize("page", FRAMEWORKS, ids=name_of)
def test_code_of_an_adapters_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(page)
