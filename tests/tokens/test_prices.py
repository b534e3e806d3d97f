"""Prices by model, and the sums of what was reported and what it cost."""

import re

import pytest

from roocontext.errors import InvalidOption
from roocontext.log.counting import ReportedUsage
from roocontext.tokens import Usage, limit_for, prices, spending

PLAIN = Usage(1_000_000, 1_000_000, 0)
TABLE = """
date = "2020-02-02"
[models]
"mine" = { input = 2, output = 3 }
"""


@pytest.mark.parametrize(
    "name",
    [
        *("claude-sonnet-4-5", "claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        *("claude-sonnet-4-5-20250929", "claude-sonnet-4-5@20250929"),
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_name_is_found_without_its_provider_and_date(name):
    assert prices().of(name) is prices().of("claude-sonnet-4-5")
    assert prices().of(name).cost(PLAIN) == 18.0


@pytest.mark.parametrize("name", ["", None, "mine", "claude", "claude-opus-4-99", "gpt-5-huge"])
def test_model_is_never_priced_as_its_family(name):
    assert prices().of(name) is None


def test_every_line_is_a_plausible_price_and_found_by_its_own_name():
    table = prices()
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", table.date)
    for name, price in table.models.items():
        assert table.of(name) is price
        for rates in filter(None, (price.rates, price.long)):
            assert 0 < rates.cache_read <= rates.input <= rates.output
            assert rates.input <= rates.cache_write <= rates.cache_write_1h


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-sonnet-5", "gpt-5.4", "gpt-5.2"])
def test_models_of_the_table_of_limits_have_prices(model):
    assert limit_for(model, environ={}).source == f"table:{model}"
    assert prices().of(model) is not None


def test_each_kind_of_token_has_its_rate():
    rates = prices().of("claude-sonnet-4").rates
    assert rates.cost(Usage(1_000_000, 0, 1_000_000)) == 0.30
    assert rates.cost(Usage(1_000_000, 0, 0, written=1_000_000)) == 3.75
    assert rates.cost(Usage(1_000_000, 0, 0, written=1_000_000, written_1h=1_000_000)) == 6.0
    assert rates.cost(Usage(0, 0, 10)) == pytest.approx(10 * 0.30 / 1_000_000)


def test_long_request_has_the_rates_of_long_ones():
    price = prices().of("gemini-2.5-pro")
    assert price.cost(Usage(200_000, 0, 0)) == pytest.approx(0.25)
    assert price.cost(Usage(200_001, 0, 0)) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize(("calls", "cost"), [(1, 0.75), (3, None)])
def test_sum_of_several_calls_is_not_priced_as_one_long_request(calls, cost):
    (spent,) = spending([row("gemini-2.5-pro", is_summary=True, calls=calls, input_tokens=300_000)])
    assert (spent.cost, spent.unpriced) == (cost, 0 if cost else calls)


def test_another_table_may_be_given(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(TABLE)
    mine = prices(path)
    assert (mine.date, mine.of("mine").cost(PLAIN)) == ("2020-02-02", 5.0)
    assert mine.of("claude-sonnet-4-5") is None
    assert mine.of("mine").cost(Usage(1_000_000, 0, 500_000, written=500_000)) == 2.0
    (spent,) = spending([row("mine", input_tokens=1_000_000)], mine)
    assert spent.cost == 2.0


OUTPUTS = [
    *('"3"', "-3", "3, batch = 1", "3, above = 5", "3, long = { input = 1, output = 2 }"),
    "3, above = 5, long = 7",
]


@pytest.mark.parametrize(
    "wrong",
    [
        *("date = ", "date = 2020-02-02\n[models]", 'date = "2020-02-02"\nmodels = 3'),
        *(TABLE.replace("3", output) for output in OUTPUTS),
        TABLE.replace(", output = 3", ""),
        'date = "2020-02-02"\nmodels = { mine = 3 }',
    ],
)
def test_wrong_table_is_refused(tmp_path, wrong):
    path = tmp_path / "prices.toml"
    path.write_text(wrong)
    with pytest.raises(InvalidOption):
        prices(path)


def row(model, *, is_summary=False, **usage):
    return ReportedUsage("s", 1, model, usage, 0, is_summary)


def test_calls_of_each_model_are_summed_and_summaries_apart():
    thought = {"prompt_tokens": 60, "completion_tokens": 5}
    thought["completion_tokens_details"] = {"reasoning_tokens": 4}
    rows = [
        row("claude-sonnet-4-5", input_tokens=100, output_tokens=10, cache_read_input_tokens=50),
        row("gpt-4o", **thought),
        row("claude-sonnet-4-5", input_tokens=100, cache_creation_input_tokens=20),
        row("claude-sonnet-4-5", is_summary=True, calls=2, input_tokens=7, output_tokens=3),
    ]
    replies, other, summaries = spending(rows)
    assert (replies.model, replies.calls, replies.is_summary) == ("claude-sonnet-4-5", 2, False)
    assert (replies.input, replies.output, replies.cached, replies.written) == (270, 10, 50, 20)
    assert (replies.thinking, other.thinking) == (None, 4)
    assert replies.cost == pytest.approx((200 * 3 + 50 * 0.3 + 20 * 3.75 + 10 * 15) / 1_000_000)
    assert (summaries.is_summary, summaries.calls, summaries.input) == (True, 2, 7)
    assert summaries.cost == pytest.approx((7 * 3 + 3 * 15) / 1_000_000)


def test_recorded_cost_counts_before_the_table():
    (spent,) = spending([row("gpt-4o", prompt_tokens=1_000_000, cost=7)])
    assert (spent.cost, spent.unpriced) == (7.0, 0)
    (spent,) = spending([row("gpt-4o", prompt_tokens=1_000_000, cost=True)])
    assert spent.cost == 2.5


def test_call_of_an_unknown_model_has_no_cost_and_is_counted():
    unknown = [row("unheard-of", input_tokens=5), row("unheard-of", input_tokens=5, cost=1)]
    (spent,) = spending(unknown[:1])
    assert (spent.input, spent.cost, spent.unpriced) == (5, None, 1)
    (spent,) = spending(unknown)
    assert (spent.input, spent.cost, spent.unpriced) == (10, 1.0, 1)
    (spent,) = spending([ReportedUsage("s", 1, "gpt-4o", "many", 0)])
    assert (spent.calls, spent.cost, spent.unpriced) == (1, None, 1)


def test_summary_that_no_model_wrote_costs_nothing():
    rows = [row(None, is_summary=True, calls=0), ReportedUsage("s", 1, None, None, 0, True)]
    assert spending(rows) == ()
