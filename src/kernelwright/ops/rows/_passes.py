"""Print the passes over a row: what is loaded, computed, folded and stored for each vector."""

from collections.abc import Iterable
from dataclasses import dataclass

from ...languages.vectors import C_TYPES, Kind, Term, Unprintable, print_pointwise
from ...records import Scalar
from ._layout import Layout
from ._plan import Level, Plan
from ._program import Output, Value

_FOLDS = {"sum": "Sum", "max": "Max", "min": "Min", "product": "Product", "sumexp": "SumExp"}


@dataclass
class PassPrinter:
    """Prints what happens inside a row (or a block of columns)."""

    plan: Plan
    layout: Layout
    ahead: int
    """How many segments ahead columns are prefetched; 0 for not at all."""

    def row_values(self, number: int) -> list[str]:
        """Print what is known about a row after a pass: folded values and what follows from them."""
        plan = self.plan
        folds = plan.pass_values(number)[1] if number else []
        lines = []
        later = set(plan.row_values(number))
        for v in plan.values:
            if v in folds:
                lines.append(self._declare(v, self._folded(v, folds)))
            elif v in later:
                lines.append(self._declare(v, self._row_term(v).text))
        return lines

    def _declare(self, v: Value, text: str) -> str:
        if self.plan.columns:
            return f"  const auto {v.name} = kw::each<kWide>([&](int w) {{ return {text}; }});"
        return f"  const auto {v.name} = {text};"

    def _folded(self, v: Value, folds: list[Value]) -> str:
        w = "w" if self.plan.columns else "0"
        partner = next((f for f in folds if f.what == "sumexp" and f.args == v.args), None)
        if v.what == "sumexp":
            return f"{v.name}_fold.total({w})"
        if v.what == "max" and partner is not None:
            return f"{partner.name}_fold.max({w})"
        return f"{v.name}_fold.{'index' if v.what.startswith('arg') else 'value'}({w})"

    def _row_term(self, v: Value) -> Term:
        if v.op == "count":
            return Term(f"kw::splat(static_cast<float>({self.layout.count(v)}))")
        if v.op == "load":
            lanes = self.plan.columns and self.layout.on_vector(v)
            integer = v.dtype.startswith("int")
            if lanes:
                function = "load_integers" if integer else "load"
                return Term(f"kw::{function}({v.name}_row + w * kw::W, lanes)")
            wrap = "kw::M{} + static_cast<int32_t>" if integer else "kw::splat(static_cast<float>"
            return Term(f"{wrap}({v.name}_row[0])" + ("" if integer else ")"))
        return self._point(v)

    def _point(self, v: Value) -> Term:
        return print_pointwise(v.what, [self.term(a) for a in v.args], dict(v.kwargs))

    def term(self, a: Value | Scalar) -> Term | Scalar:
        """Print a reference to a value that was declared before."""
        if not isinstance(a, Value):
            return a
        once = self.plan.levels[a] is not Level.ELEMENT
        text = a.name + ("[w]" if once and self.plan.columns and self.plan.levels[a] is Level.ROW else "")
        return Term(text, self.kind(a))

    def kind(self, a: Value) -> Kind:
        """Return the kind of vector of a value."""
        if a.op == "index" or (a.op == "load" and a.dtype.startswith("int")) or a.what.startswith("arg"):
            return "integer"
        return self._point(a).kind if a.op == "point" else "float"

    def one_pass(self, number: int) -> list[str]:
        """Print one pass: loops, loads, expressions, folds and stores."""
        plan = self.plan
        values, folds, writes = plan.pass_values(number)
        folds = [f for f in folds if not self._rides(f, folds)]
        names = ", ".join([*(f.name for f in folds), *(self.out(o) for o in writes)])
        wide, rows = ("kWide", "false") if plan.columns else ("kUnroll", "true")
        lines = ["", f"  // Pass {number}: {names}."]
        for f in folds:
            kind = (
                f"ArgBest<{wide}, {rows}, {'true' if f.what == 'argmax' else 'false'}>"
                if f.what.startswith("arg")
                else f"{_FOLDS[f.what]}<{wide}, {rows}>"
            )
            lines.append(f"  kw::{kind} {f.name}_fold;")
        body = [*self._element_lines(values, number), *self._fold_lines(folds), *self._store_lines(writes)]
        flush = [f"{f.name}_fold.flush();" for f in folds]
        lines += ["  {", *self._loops(values, body, flush, writes, number), "  }"]
        if folds:
            lines.append(f"  team.combine({', '.join(f'{f.name}_fold' for f in folds)});")
        return lines

    @staticmethod
    def _rides(fold: Value, folds: list[Value]) -> bool:
        """Whether a maximum comes with a sum of exponentials of the same values."""
        return fold.what == "max" and any(f.what == "sumexp" and f.args == fold.args for f in folds)

    def _loops(
        self, values: list[Value], body: list[str], flush: list[str], writes: list[Output], number: int
    ) -> list[str]:
        if self.plan.columns:
            return [
                "    const kw::Range part = team.part(call.segment_count);",
                "    for (int64_t run = part.begin; run < part.end; run += kw::kColumnRun) {",
                "      for (int64_t s = run; s < std::min(part.end, run + kw::kColumnRun); ++s) {",
                *(f"        {line}" for line in self._segment_pointers(values, writes, number)),
                "        kw::unroll<kWide>([&](int w) {",
                *(f"          {line}" for line in body), "        });", "      }",
                *(f"      {line}" for line in flush), "    }",
            ]  # fmt: skip
        split = not self.plan.segments
        end = "part.end" if split else "call.length"
        sweep = "kw::sweep<kUnroll>("
        if writes:
            sweep = f"kw::sweep_aligned<kStream, kUnroll>({self.out(writes[0])}_row{self._s(True)}, "
        inner = [
            f"for (int64_t run = {'part.begin' if split else '0'}; run < {end}; run += kw::kRun) {{",
            f"  const int64_t end = std::min({end}, run + kw::kRun);",
            *(f"  {line}" for line in self._seen_first(number)),
            f"  {sweep}run, end, [&](int64_t i, auto lanes, int w) {{", "    (void)w;",
            *(f"    {line}" for line in [*self._prefetches(values, number), *body]), "  });",
            *(f"  {line}" for line in flush), "}",
        ]  # fmt: skip
        if split:
            return [
                "    const kw::Range part = team.part(call.length, kUnroll * kw::W);",
                *(f"    {x}" for x in inner),
            ]
        return [
            "    const kw::Range part = team.part(call.segment_count);",
            "    for (int64_t s = part.begin; s < part.end; ++s) {",
            *(f"      {line}" for line in self._segment_pointers(values, writes, number)),
            *(f"      {line}" for line in inner), "    }",
        ]  # fmt: skip

    def _seen_first(self, number: int) -> list[str]:
        """Print the scan for a run's largest values that sums of exponentials begin with."""
        folds = self._exponentials(number)
        if not folds:
            return []
        lines = self._element_lines(self.plan.behind(folds, number), number)
        for f in folds:
            term = self.term(f.args[0])
            assert isinstance(term, Term)
            lines.append(f"{f.name}_fold.see(w, {term.as_float()}, lanes);")
        return [
            "kw::sweep<kUnroll>(run, end, [&](int64_t i, auto lanes, int w) {",
            *(f"  {line}" for line in lines), "});", *(f"{f.name}_fold.raise();" for f in folds),
        ]  # fmt: skip

    def _exponentials(self, number: int) -> list[Value]:
        """Return the sums of exponentials that a pass over a row folds."""
        return [f for f in self.plan.pass_values(number)[1] if f.what == "sumexp"]

    def _prefetches(self, values: list[Value], number: int) -> list[str]:
        """Print prefetches of what is read next while this is in cache: the next run, the next row, or 2 KiB later."""
        if self._exponentials(number):
            asked = {v: "kw::kRun" for v in values if v.op == "load" and self._follows(v)}
        elif not self.plan.segments and (self.plan.last_pass == 1 or not self.plan.outer):
            walked = [v for v in values if v.op == "load" and v.varies >= set(self.plan.order)]
            return [f"kw::read_ahead({v.name}_row + i, call.items * call.length);" for v in walked]
        else:
            asked = {v: f"{v.name}_next" for v in values if number == 2 and self.prefetched_row(v)}
        return [
            f"kw::prefetch({v.name}_row{self._s(self.layout.has(v, self.plan.segments))} + i + {there});"
            for v, there in asked.items()
        ]

    def prefetched_row(self, v: Value) -> bool:
        """Whether the second pass prefetches the next row of a tensor."""
        if self.plan.last_pass < 2 or self._exponentials(2):
            return False
        return v.op == "load" and self._follows(v) and v in self.plan.pass_values(2)[0]

    def _follows(self, v: Value) -> bool:
        """Whether a tensor has separate elements in every row."""
        return not self.plan.columns and self.layout.on_vector(v) and self.layout.has(v, self.plan.outer)

    def _s(self, used: bool) -> str:
        return "_s" if used and self.plan.segments else ""

    def _segment_pointers(self, values: Iterable[Value], writes: list[Output], number: int) -> list[str]:
        if not self.plan.segments:
            return []
        lines = []
        for v in values:
            if v.op == "load" and self.layout.has(v, self.plan.segments):
                step = f"kw::offset(s, call.segments, call.{v.name}_segments)"
                lines.append(f"const {C_TYPES[v.dtype]}* const {v.name}_row_s = {v.name}_row + {step};")
                if self.prefetched(v) and number == 1:
                    step = step.replace("offset(s,", "offset(s + kAhead,")
                    lines.append(f"const {C_TYPES[v.dtype]}* const {v.name}_ahead = {v.name}_row + {step};")
        for o in writes:
            name = f"{self.out(o)}_row"
            step = "kw::offset(s, call.segments, call.out_segments)"
            lines.append(f"{C_TYPES[o.dtype]}* const {name}_s = {name} + {step};")
        return lines

    def prefetched(self, v: Value) -> bool:
        """Whether the first pass over columns prefetches a tensor: each segment starts on another page."""
        columns = self.ahead > 0 and self.plan.columns
        return (
            columns and v.op == "load" and self.layout.on_vector(v) and self.layout.has(v, self.plan.segments)
        )

    def _element_lines(self, values: list[Value], number: int) -> list[str]:
        lane = "w * kw::W" if self.plan.columns else "i"
        kept = "(s * kWide + w) * kw::W" if self.plan.columns else self._position()
        lines = []
        for v in values:
            first = self.plan.kept.get(v, number)
            if first < number:
                lines.append(f"const auto {v.name} = kw::load({v.name}_kept + {kept}, lanes);")
                continue
            match v.op:
                case "load":
                    pointer = f"{v.name}_row{self._s(self.layout.has(v, self.plan.segments))}"
                    integer = v.dtype.startswith("int")
                    if self.layout.on_vector(v):
                        text = f"kw::load{'_integers' if integer else ''}({pointer} + {lane}, lanes)"
                    elif integer:
                        text = f"kw::M{{}} + static_cast<int32_t>({pointer}[0])"
                    else:
                        text = f"kw::splat(static_cast<float>({pointer}[0]))"
                case "index":
                    text = f"kw::M{{}} + static_cast<int32_t>({self._position()})"
                    text += "" if self.plan.columns else " + kw::iota()"
                case _:
                    text = self._point(v).text
            if self.prefetched(v) and number == 1:
                lines.append(f"__builtin_prefetch({v.name}_ahead + w * kw::W);")
            lines.append(f"const auto {v.name} = {text};")
            if v in self.plan.kept:
                lines.append(f"kw::store({v.name}_kept + {kept}, {v.name}, lanes);")
        return lines

    def _position(self) -> str:
        if self.plan.columns:
            return "s"
        return "s * call.length + i" if self.plan.segments else "i"

    def _fold_lines(self, folds: list[Value]) -> list[str]:
        lines = []
        for f in folds:
            term = self.term(f.args[0])
            assert isinstance(term, Term)
            at = ""
            if f.what.startswith("arg"):
                iota = "" if self.plan.columns else " + kw::iota()"
                at = f"kw::M{{}} + static_cast<int32_t>({self._position()}){iota}, "
            lines.append(f"{f.name}_fold.add(w, {term.as_float()}, {at}lanes);")
        return lines

    def _store_lines(self, writes: list[Output]) -> list[str]:
        lane = "w * kw::W" if self.plan.columns else "i"
        lines = []
        for o in writes:
            term = self.term(o.value)
            assert isinstance(term, Term)
            if term.kind == "integer":
                raise Unprintable("an integer output")
            text = term.text if term.kind == "mask" else term.as_float()
            lines.append(f"kw::put<kStream>({self.out(o)}_row{self._s(True)} + {lane}, {text}, lanes);")
        return lines

    def out(self, output: Output) -> str:
        """Name an output."""
        return f"out{self.plan.outputs.index(output)}"
