"""A model's result and its plan → one HTML file: where the time went, what each kernel brought, what was dropped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup, escape

from ._charts import WIDTH, microseconds, ticks
from ._treemap import Part, treemaps

if TYPE_CHECKING:
    from ..models import ModelResult, Plan, RegionOutcome
    from ..models.drift import Drift

_WHOLE = "whole"


@dataclass(frozen=True)
class ModelReport:
    """The result of optimising a model, ready to be rendered."""

    result: "ModelResult"
    plan: "Plan | None" = None
    """What was planned; results of earlier versions have none."""
    drift: "Drift | None" = None
    """How the optimised model differs as deployed, where `drift --run` was asked for it."""
    accuracy: Sequence[tuple[str, str, str]] = ()
    """What the judge found of the whole: check, outcome, message."""
    environment: Mapping[str, str] = field(default_factory=dict)
    reproduce: str = ""

    @property
    def before_us(self) -> float:
        """Microseconds of a call in eager torch."""
        return self.plan.time_us if self.plan else 0.0

    @property
    def after_us(self) -> float:
        """Microseconds of a call of the result, by what was measured over eager torch."""
        ratio = self.result.eager_speedup if self.result.improved else None
        return self.before_us / ratio if ratio else self.before_us

    @property
    def kept(self) -> "list[RegionOutcome]":
        """The regions whose kernels are in the result, those that cover most of the time first."""
        found = [r for r in self.result.regions if r.kept]
        return sorted(found, key=lambda r: -self.time_us(r.region))

    def time_us(self, region: str) -> float:
        """Return the microseconds of a region in eager torch inside the model."""
        if self.plan is None:
            return 0.0
        if region == _WHOLE:
            return self.before_us
        return next((r.time_us for r in self.plan.regions if r.region == region), 0.0)


@dataclass(frozen=True)
class Step:
    """One accepted kernel on Amdahl's curve."""

    name: str
    """What it computes."""
    covered: float
    """Share of the model's time that this kernel and those before it replace."""
    speedup: float
    """Of the model with this kernel and those before it, if each is as fast inside as it is alone."""


def steps_of(report: ModelReport) -> list[Step]:
    """Return the accepted kernels, each with what it adds to those before it."""
    steps, covered, saved = list[Step](), 0.0, 0.0
    for region in report.kept:
        time_us = report.time_us(region.region)
        alone = region.speedup or 1.0
        if region.region == _WHOLE:
            alone = report.result.eager_speedup or alone
        covered, saved = covered + time_us, saved + time_us * (1.0 - 1.0 / alone)
        if report.before_us > saved:
            share = min(covered / report.before_us, 1.0)
            steps.append(Step(region.label, share, report.before_us / (report.before_us - saved)))
    return steps


def before_and_after(report: ModelReport) -> list[tuple[str, list[Part]]]:
    """Return the model's parts as they were, and as they are with the accepted kernels."""
    plan = report.plan
    if plan is None or not plan.parts:
        return []
    parts = [
        Part(p.operator or p.module, p.time_us, p.module if p.operator else "", note=f"{p.calls} calls")
        for p in plan.parts
    ]
    between = max(plan.time_us - sum(p.time_us for p in parts), 0.0)
    before = [*parts, Part("between operators", between, style="between")]
    if not report.result.improved:
        return [("Eager torch", before)]
    kernels = []
    for region in report.kept:
        us = (
            report.after_us
            if region.region == _WHOLE
            else report.time_us(region.region) / (region.speedup or 1.0)
        )
        name = "one program" if region.region == _WHOLE else region.label
        kernels.append(Part(name, us, style="kernel", note=f"{region.uses} uses"))
    rest = max(report.after_us - sum(k.time_us for k in kernels), 0.0)
    return [
        ("Eager torch", before),
        ("With the accepted kernels", [*kernels, Part("all that stays native", rest)]),
    ]


def amdahl(steps: Sequence[Step], ceiling: float, measured: float | None) -> Markup:
    """Plot speedup against the share of time that is replaced: the limit, each kernel as a step, what was measured."""
    if not steps:
        return Markup("")
    height, left, right, top, bottom = 300, 60, 190, 16, 44
    most = 1.15 * max([measured or 1.0, 1.2, *(s.speedup for s in steps)])

    def x(share: float) -> float:
        return left + share * (WIDTH - left - right)

    def y(speedup: float) -> float:
        return top + (most - speedup) / (most - 1.0) * (height - top - bottom)

    parts = [
        f'<line class="grid" x1="{left}" x2="{WIDTH - right}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>'
        f'<text class="tick end" x="{left - 8}" y="{y(t) + 4:.1f}">{t:.3g}×</text>'
        for t in (1.0 + size for size in ticks(most - 1.0))
    ]
    parts += [
        f'<text class="tick middle" x="{x(t):.1f}" y="{height - 22}">{t:.0%}</text>'
        for t in (0, 0.25, 0.5, 0.75, 1)
    ]
    parts.append(
        f'<text class="tick middle" x="{x(0.5):.1f}" y="{height - 4}">share of eager time that kernels replace</text>'
    )
    end = 1.0 - 1.0 / most
    limit = "L".join(f"{x(end * i / 40):.1f},{y(1.0 / (1.0 - end * i / 40)):.1f}" for i in range(41))
    parts.append(
        f'<path class="curve earlier" d="M{limit}"/><text class="name" x="{x(end) + 8:.1f}" y="{top + 6}">'
        f"if they took no time</text>"
    )
    path = f"M{x(0):.1f},{y(1):.1f}" + "".join(f"H{x(s.covered):.1f}V{y(s.speedup):.1f}" for s in steps)
    parts.append(f'<path class="curve kernel" d="{path}"/>')
    for step in steps:
        parts.append(
            f'<circle class="dot improved" cx="{x(step.covered):.1f}" cy="{y(step.speedup):.1f}" r="5"><title>'
            f"{escape(step.name)}: {step.speedup:.2f}×, {step.covered:.0%} replaced</title></circle>"
        )
    if measured is not None:
        parts.append(
            f'<line class="level" x1="{left}" x2="{WIDTH - right}" y1="{y(measured):.1f}" y2="{y(measured):.1f}"/>'
            f'<text class="name kernel" x="{WIDTH - right + 8}" y="{y(measured) + 4:.1f}">'
            f"measured {measured:.2f}×</text>"
        )
    inner = "\n".join(parts)
    title = f"Amdahl's curve; at most {ceiling:.2f} times"
    return Markup(  # every piece of text in `parts` is a figure or already escaped
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{inner}</svg>'
    )


def render_model(report: ModelReport) -> str:
    """Render the report as one HTML document without external resources; labels and messages are escaped."""
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["us"] = microseconds
    plan, result, steps = report.plan, report.result, steps_of(report)
    over_eager = result.eager_speedup if result.improved else None
    maps = before_and_after(report)
    return environment.get_template("model.html").render(
        report=report, result=result, plan=plan, steps=steps, style=Markup((here / "report.css").read_text()),
        treemaps=treemaps(maps) if maps else "",
        amdahl=amdahl(steps, plan.ceiling if plan else 1.0, over_eager),
        rows={r.region: r for r in (*plan.regions, *((plan.whole,) if plan.whole else ()))} if plan else {},
        untried=_untried(report),
    )  # fmt: skip


def _untried(report: ModelReport) -> list[str]:
    """Name the regions of the plan that were never searched."""
    tried = {r.region for r in report.result.regions}
    return (
        [f"{r.label} ×{r.uses}" for r in report.plan.regions if r.region not in tried] if report.plan else []
    )
