"""The adapters' pages, executed with the frameworks installed."""

import pytest

from acceptance.test_docs import FRAMEWORKS, name_of, run


@pytest.mark.parametrize("page", FRAMEWORKS, ids=name_of)
def test_code_of_an_adapters_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page)
