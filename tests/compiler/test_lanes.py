"""What lanes do: vectors side by side within the same loops, scans, windows whose lanes are inside."""

import dataclasses

import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import built, differences

from kernelwright.compiler.actions import State, taken
from kernelwright.compiler.lower import Decisions, Layout, lower
from kernelwright.compiler.printers import cpp


def over_channels(x):
    """Take a norm of every column: what is named `add_1` must not meet a copy of what is named `add`."""
    add = x + 1
    add_1 = (add * add).sum(1, keepdim=True) + 2
    return add / add_1 + x.amax(1, keepdim=True)


def windows(x):
    return torch.max_pool2d(x, 3, 1, 1, 2) + torch.max_pool2d(x, 3, 2, 1)[..., :1, :1]


CASES = {
    "columns": (over_channels, (3, 40, 300), "at += 8 * kw::W"),
    "sums": (lambda x: torch.cumsum(x * 2, -1) + x, (3, 77), "kw::scan<kw::Plus>"),
    "products": (lambda x: torch.cumprod(x, -1), (2, 77), "kw::scan<kw::Times>"),
    "backwards": (lambda x: x.flip(-1).cumsum(-1), (2, 77), "kw::load_backwards("),
    "before": (
        lambda x: torch.cat([torch.zeros_like(x[:, :1]), x], -1).cumsum(-1),
        (2, 77),
        "kw::load_between(",
    ),
    "passes": (
        lambda x: torch.softmax(x, -1),
        (5, 77),
        "kw::prefetch(x0 + ((i0 * 77) + i1) + kw::near(77));",
    ),
    "windows": (windows, (2, 9, 70), "kw::load_between("),
    "parts": (
        lambda x: torch.cat([x * 2, x[:, 3:40].exp(), torch.ones_like(x[:, :2]), x[:, :9].flip(-1)], -1),
        (5, 77),
        "kw::pick(",
    ),
    "terms": (lambda x: (x * x).sum(-1), (3, 300), "kw::added<8>("),
    "two_folds": (lambda x: x.sum(-1) * x.amax(-1), (3, 77), "kw::added<2>("),
    "down": (lambda x: x.sum(1), (2, 900, 700), "kw::columns_ahead<8>("),
    "walk": (lambda x: x * 2, (3, 400_001), "kw::read_ahead(x0 + i1, 1200003);"),
}


def lowered(function, shape, name="columns", unroll=2):
    graph = graph_of(function, shape)
    program = lower(graph, Decisions(layout=Layout(unroll=unroll)))
    return graph, dataclasses.replace(program, name=name)


def test_lanes_mean_what_the_graph_means_in_whole_vectors_and_parts():
    programs = {name: lowered(function, shape, name) for name, (function, shape, _) in CASES.items()}
    for name, (_, program) in programs.items():
        assert CASES[name][2] in cpp.source(program), name
    for name, difference in differences(programs, built(programs)):
        assert difference < 1e-4, name


def test_what_is_large_and_read_once_from_end_to_end_is_asked_for_ahead():
    def channels(x):
        return x - x[0, :, 0, 0].reshape(-1, 1, 1)

    text = cpp.source(lowered(channels, (2, 3, 500, 700))[1])
    assert "kw::read_ahead(x0 + (((((i0 * 3) + i1) * 500) * 700) + i3), 2100000);" in text
    assert text.count("kw::read_ahead(") == 1
    for function, times in (
        (lambda x: x.sum(-1), 1),
        (lambda x: x.cumsum(-1), 0),
        (lambda x: x / x.sum(), 2),
    ):
        text = cpp.source(lowered(function, (1024, 1025))[1])
        assert text.count("kw::read_ahead(x0 + ") == text.count("kw::read_ahead(") == times


def test_the_first_walk_down_large_columns_asks_for_rows_further_down():
    def asked(function, shape):
        lines = cpp.source(lowered(function, shape)[1]).splitlines()
        return [line.strip() for line in lines if "kw::columns_ahead<" in line]

    one, eight = asked(lambda x: torch.softmax(x, 1), (4, 300, 1025))
    place = "(x0 + ((((i0 * 300) + softmax_max1_1) * 1025) + i2), 1230000, softmax_max1_1, 300, 1025);"
    assert one == f"kw::columns_ahead<1>{place}"
    assert eight == f"kw::columns_ahead<8>{place}"
    assert not asked(lambda x: torch.softmax(x, 1), (4, 200, 1025))
    assert not asked(lambda x: (x[:, 1:] * x[:, :-1]).sum(1), (4, 300, 1025))


def test_nothing_is_asked_for_ahead_that_is_small_skipped_or_read_at_several_places():
    wide = (1024, 1025)
    for function, shape in {
        lambda x: x * 2: (1023, 1024),
        lambda x: x[:, :900] * 2: wide,
        lambda x: x[:, ::2] * 2: wide,
        lambda x: x[:, 1:] - x[:, :-1]: wide,
        lambda x: torch.nn.functional.pad(x, (0, 1)): wide,
    }.items():
        assert "kw::read_ahead(" not in cpp.source(lowered(function, shape)[1]), shape


def test_large_results_ask_for_large_pages_and_small_ones_do_not():
    for rows, asked in ((1024, True), (1023, False)):
        text = cpp.source(lowered(lambda x: x * 2, (rows, 1024))[1])
        assert ("  kw::ask_large_pages(mul.data(), mul.numel() * int64_t(sizeof(float)));" in text) == asked
        assert text.count("kw::ask_large_pages(") == asked


def test_nothing_is_asked_for_where_one_pass_is_enough_or_rows_do_not_follow():
    for function in (lambda x: x.sum(-1), lambda x: torch.softmax(x, 0), lambda x: x.t().softmax(-1)):
        assert "kw::prefetch(" not in cpp.source(lowered(function, (5, 77))[1])


def test_fewer_vectors_where_the_tuner_says_so_or_the_body_is_long():
    def long(x):
        return sum(torch.sin(x * k).sum(1) for k in range(20))

    _, few = lowered(*CASES["columns"][:2], unroll=1)
    assert "at += 4 * kw::W" in cpp.source(few)
    assert "at += 4 * kw::W" not in cpp.source(lowered(long, (3, 40, 300))[1])


def test_a_scan_that_folds_otherwise_is_no_scan_of_lanes():
    _, program = lowered(lambda x: torch.logcumsumexp(x, -1), (3, 77))
    assert "kw::scan<" not in cpp.source(program)


def test_only_what_is_carried_of_a_scan_of_sums_is_in_float64():
    texts = {name: cpp.source(lowered(*CASES[name][:2])[1]) for name in ("sums", "products")}
    assert ["kw::Wide" in text for text in texts.values()] == [False, True]
    assert all("double " in text for text in texts.values())


def test_sums_that_are_read_on_the_way_or_in_float32_are_not_added_in_pairs():
    _, single = graph_and_single(lambda x: x.sum(-1), (4, 512))
    for program in (
        lowered(lambda x: x.prod(-1), (3, 300))[1],
        single,
        lowered(over_channels, (3, 40, 300))[1],
    ):
        assert "kw::added<" not in cpp.source(program)


def graph_and_single(function, shape):
    graph = graph_of(function, shape)
    state = State(graph, graph)
    return graph, taken(state, BY_NAME["single"], next(iter(BY_NAME["single"].sites(state)))).program


def test_a_large_output_streams_from_lanes_around_a_loop_and_from_a_scan():
    for function, shape in ((over_channels, (16, 64, 4096)), (CASES["sums"][0], (512, 8192))):
        graph = graph_of(function, shape)
        state = State(graph, graph)
        (site,) = BY_NAME["stream"].sites(state)
        assert "kw::stream(" in cpp.source(taken(state, BY_NAME["stream"], site).program)
