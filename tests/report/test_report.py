import dataclasses
import html.parser
import re

from kernelwright.records import Block, Counters, Interval, RunStatus
from kernelwright.report import ReportData, render
from kernelwright.report._charts import intervals
from kernelwright.report._html import _baseline_times
from kernelwright.search import Standing


class Collector(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in {"src", "href"} and value]


def parse(text: str) -> Collector:
    collector = Collector()
    collector.feed(text)
    return collector


def test_the_page_loads_nothing_and_runs_nothing(report_data: ReportData) -> None:
    page = parse(render(report_data))
    assert page.links == []
    assert "script" not in page.tags
    assert "@import" not in render(report_data)
    assert "url(" not in render(report_data)


def test_hostile_source_is_shown_as_text(report_data: ReportData) -> None:
    text = render(report_data)
    assert "<script>" not in text
    assert "alert" in text


def test_headline_states_the_decision(report_data: ReportData) -> None:
    text = render(report_data)
    assert "1.98×" in text
    assert "1.92 to 2.04" in text
    assert "77 %" in text  # 700 of 910 µs


def test_what_a_user_gets_is_told_by_workload_with_score_and_headroom(report_data: ReportData) -> None:
    """The run's own speedup counts the native workload as 1 and is the headline's."""
    standings = (
        Standing(workload="rows=4096", kernel="abcd", time_us=20.0, baseline_us=40.0, bound_us=10.0),
        Standing(workload="rows=512", kernel="", time_us=30.0, baseline_us=30.0, bound_us=10.0),
    )
    whole = Interval(median=1.37, low=1.3, high=1.44)
    page = render(
        dataclasses.replace(report_data, standings=standings, speedup=whole, stages_s={"screen": 12.5})
    )
    assert "1.37×" in page and "1.30 to 1.44" in page
    for text in ("abcd", "the native op, counted as 1", "0.75", "0.50", "2.0×", "3.0×", "12.5"):
        assert f">{text}<" in page, text


def test_ratios_are_those_of_paired_blocks(report_data: ReportData) -> None:
    """Where the machine is busy, medians of their own tell another order; and other phases have other workloads."""
    paired = Standing(
        workload="w", kernel="abcd", time_us=58.0, baseline_us=58.6, bound_us=10.0, speedup=1.13
    )
    assert ">1.13×<" in render(dataclasses.replace(report_data, standings=(paired,)))
    winner = report_data.winner
    assert winner is not None and winner.timing is not None
    first = winner.timing.blocks[0]

    def block(kernel_us: float, compile_us: float, phase: str = "measure") -> Block:
        times = {"candidate": kernel_us, "compile": compile_us}
        return first.model_copy(update={"times_us": times, "phase": phase})

    blocks = (block(10.0, 20.0), block(30.0, 60.0), block(100.0, 200.0), block(90.0, 1.0, "confirm"))
    timing = winner.timing.model_copy(update={"blocks": blocks})
    decision = winner.decision.model_copy(update={"time_us": 40.0})
    again = winner.model_copy(update={"timing": timing, "decision": decision})
    others = [e for e in report_data.evaluations if e is not winner]
    assert _baseline_times(dataclasses.replace(report_data, evaluations=[*others, again])) == {
        "compile": 80.0
    }


def test_warm_figures_stand_beside_cold_ones_where_there_are_any(report_data: ReportData) -> None:
    cold = Standing(workload="w", kernel="abcd", time_us=20.0, baseline_us=40.0, bound_us=10.0)
    assert "caches warm" not in render(dataclasses.replace(report_data, standings=(cold,)))
    warm = cold.model_copy(update={"warm_speedup": 1.25})
    page = render(dataclasses.replace(report_data, standings=(warm,)))
    assert "caches warm" in page and ">1.25×<" in page


def test_the_machine_s_state_while_it_was_timed_is_told(report_data: ReportData) -> None:
    assert "load 0.0 to 0.0, clock not told, never throttled" in render(report_data)


def test_a_run_without_a_winner_says_so(report_data: ReportData) -> None:
    text = render(dataclasses.replace(report_data, best=None, reason="the ratio <to compile> is 0.98"))
    assert "Nothing better found" in text and "Why: the ratio &lt;to compile&gt; is 0.98." in text
    assert "1.98×</span>" not in text


def test_an_empty_run_can_be_reported(report_data: ReportData) -> None:
    text = render(dataclasses.replace(report_data, best=None, evaluations=[], finished_s=[]))
    assert "0 candidates were evaluated" in text
    assert "Nothing better found" in text and "<th>candidate</th>" not in text


def test_a_run_that_was_cut_short_is_not_said_to_have_found_nothing(report_data: ReportData) -> None:
    failed = report_data.run.model_copy(update={"status": RunStatus.FAILED})
    empty = dataclasses.replace(report_data, run=failed, best=None, evaluations=[], finished_s=[])
    text = render(empty)
    assert "Not finished" in text and "the run failed" in text and f"resume {failed.id}" in text
    judged = failed.model_copy(update={"options": {"judged": True}})
    assert "resume" not in render(dataclasses.replace(empty, run=judged))


def test_long_names_keep_their_ends(report_data: ReportData) -> None:
    """Workloads that differ in their last word only are told apart."""
    names = [f"{'rows=128,' * 8}regime={kind}" for kind in ("mixed", "sparse")]
    drawn = intervals([(name, 2.0, 1.9, 2.1) for name in names], 0.02)
    assert "regime=mixed<title>" in drawn and "regime=sparse<title>" in drawn and names[0] in drawn


def test_what_a_templates_name_tells_is_not_told_again(report_data: ReportData) -> None:
    first, *others = report_data.evaluations
    told = {"template": "schedule/keep(x)", "parameters": {"actions": "keep(x)", "unroll": 2}}
    named = first.model_copy(update={"candidate": first.candidate.model_copy(update=told)})
    text = render(dataclasses.replace(report_data, evaluations=[named, *others]))
    assert ">schedule/keep(x) unroll=2<" in text and "actions=" not in text


def test_failures_are_counted_by_kind(report_data: ReportData) -> None:
    assert report_data.failures() == [("correct", 1), ("inputs-unchanged", 1)]


def test_every_timed_candidate_is_on_the_time_axis(report_data: ReportData) -> None:
    drawing = re.search(r'aria-label="Every timed candidate.*?</svg>', render(report_data), re.DOTALL)
    assert drawing is not None
    assert drawing.group().count("<circle") == 4


def test_the_diff_is_against_the_parent(report_data: ReportData) -> None:
    text = render(report_data)
    assert "two passes" in text
    assert "Change against the parent" in text


def test_what_profilers_counted_of_the_winner_is_told(report_data: ReportData) -> None:
    counted = Counters(
        tool="perf", workload="n=4", calls=9, figures={"ipc": 1.25}, remarks=("<b>stalls</b>",)
    )
    evaluations = [e.model_copy(update={"counters": (counted,)}) for e in report_data.evaluations]
    text = render(dataclasses.replace(report_data, evaluations=evaluations))
    assert "ipc 1.25" in text and "&lt;b&gt;stalls" in text
    assert "profilers counted" not in render(report_data)
