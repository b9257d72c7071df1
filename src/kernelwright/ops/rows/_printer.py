"""Print a plan as a C++ row program on `rows.h`."""

from dataclasses import dataclass

from ...languages.vectors import C_TYPES, Term, Unprintable, print_pointwise
from ._layout import Layout
from ._passes import PassPrinter
from ._plan import Level, Plan
from ._program import Output, Value


@dataclass
class RowPrinter:
    """Prints one kernel; sizes stay run-time values."""

    plan: Plan
    symbol: str
    summary: str
    unroll: int
    serial_below: int
    stream_from: int
    """Bytes of output from which stores are non-temporal; 0 for never."""
    ahead: int = 0
    """How many segments ahead columns are prefetched; 0 for not at all."""

    def __post_init__(self) -> None:
        self.layout = Layout(self.plan)
        self.passes = PassPrinter(self.plan, self.layout, self.ahead)
        self.loads = [v for v in self.plan.values if v.op == "load"]
        self.grands = [v for v in self.plan.values if v.op == "reduce" and self.plan.levels[v] is Level.GRAND]
        self.streams = self.stream_from > 0 and any(
            o.dtype == "float32" and self.plan.levels[o.value] is Level.ELEMENT for o in self.plan.outputs
        )

    def text(self) -> str:
        """Return the kernel file."""
        return "\n".join([*self._head(), *self._row(), *self._run(), *self._entry()]) + "\n"

    # The parts of the file -----------------------------------------------------------------------------

    def _head(self) -> list[str]:
        plan = self.plan
        unit = "block of columns" if plan.columns else "row"
        reads = ", ".join(v.name for v in self.loads)
        lines = [
            f"// {self.summary}",
            f"// {plan.last_pass} pass(es) over each {unit}; a {unit} in cache is read from memory once: {reads}.",
            '#include "rows.h"', "", "namespace {", "",
            f"constexpr int kUnroll = {self.unroll};  // vectors in flight",
            f"constexpr int64_t kSerialBelow = {self.serial_below};  // elements that one thread does alone",
        ]  # fmt: skip
        if self.streams:
            lines.append(
                f"constexpr int64_t kStreamFrom = {self.stream_from};  // bytes written past the caches"
            )
        if any(self.passes.prefetched(v) for v in self.loads):
            lines.append(f"constexpr int64_t kAhead = {self.ahead};  // segments that are prefetched")
        lines += [f"constexpr int kGrands = {len(self.grands)};  // sums over all rows", "", "struct Call {"]
        lines += [f"  const {C_TYPES[v.dtype]}* {v.name};" for v in self.loads]
        lines += [f"  {C_TYPES[o.dtype]}* {self.passes.out(o)};" for o in self.plan.outputs]
        return [*lines, *self.layout.members(), "};", ""]

    def _row(self) -> list[str]:
        plan = self.plan
        if plan.columns:
            lines = [
                "// One block of kWide vectors of columns, beginning at column `at` of slab `item`.",
                "template <bool kStream, int kWide, class Lanes, class Team>",
                "KW_INLINE void block(const Call& call, int64_t item, int64_t at, Lanes lanes, const Team& team,",
                f"                     kw::Grand<kGrands>& grand{self._kept_parameter()}) {{",
            ]  # fmt: skip
        else:
            lines = [
                "template <bool kStream, class Team>",
                "KW_INLINE void row(const Call& call, int64_t item, const Team& team, kw::Grand<kGrands>& grand"
                f"{self._kept_parameter()}) {{",
            ]
        lines += ["  (void)grand;", *self._pointers(), *self._kept_pointers(), *self.passes.row_values(0)]
        for number in range(1, plan.last_pass + 1):
            lines += self.passes.one_pass(number)
            lines += self.passes.row_values(number)
        lines += [*self._row_outputs(), "}", ""]
        return [*lines, *self._narrowing()] if plan.columns else lines

    def _narrowing(self) -> list[str]:
        """Print how the columns up to an end are split into blocks, each half as wide as the one before at most."""
        kept = ", kept" if self.plan.kept else ""
        return [
            "template <bool kStream, int kWide, class Team>",
            "KW_INLINE void blocks_from(const Call& call, int64_t item, int64_t at, int64_t end, const Team& team,",
            f"                           kw::Grand<kGrands>& grand{self._kept_parameter()}) {{",
            "  if (at + kWide * kw::W <= end) {",
            f"    block<kStream, kWide>(call, item, at, kw::Full{{}}, team, grand{kept});",
            "    at += kWide * kw::W;", "  }",
            "  if constexpr (kWide > 1) {",
            f"    if (at < end) blocks_from<kStream, kWide / 2>(call, item, at, end, team, grand{kept});",
            "  } else if (at < end) {",
            f"    block<kStream, 1>(call, item, at, kw::Part{{static_cast<int>(end - at)}}, team, grand{kept});",
            "  }", "}", "",
        ]  # fmt: skip

    def _run(self) -> list[str]:
        plan = self.plan
        kept = ", kept.get()" if plan.kept else ""
        body = (
            [
                "      const int64_t item = it / blocks, at = it % blocks * kBlock;",
                "      const int64_t end = std::min(at + kBlock, call.length);",
                f"      blocks_from<kStream, kUnroll>(call, item, at, end, team, grand{kept});",
            ]
            if self.plan.columns
            else [f"      row<kStream>(call, it, team, grand{kept});"]
        )
        items = "call.items * blocks" if self.plan.columns else "call.items"
        blocks = [
            "  constexpr int64_t kBlock = kUnroll * kw::W;",
            "  const int64_t blocks = (call.length + kBlock - 1) / kBlock;",
        ]
        lines = [
            "template <bool kStream>", "void run(const Call& call, kw::Grand<kGrands>* grands) {",
            *(blocks if self.plan.columns else []),
            "  const int64_t work = call.items * call.segment_count * call.length;",
            f"  kw::distribute({items}, work, kSerialBelow,",
            "                 [&](const auto& team, int64_t begin, int64_t end, int rank) {",
            "    kw::Grand<kGrands> grand;", *(self._kept_buffer() if plan.kept else []),
            "    for (int64_t it = begin; it < end; ++it) {", *body, "    }",
            "    grands[rank] = grand;", "  });", "}", "", "}  // namespace", "",
        ]  # fmt: skip
        return lines

    def _entry(self) -> list[str]:
        plan = self.plan
        lines = [f"KW_KERNEL({self.symbol}) {{"]
        lines += [
            f"  const auto {v.name} = args.tensor<const {C_TYPES[v.dtype]}>({v.position});"
            for v in self.loads
        ]
        lines += [
            f"  const auto {self.passes.out(o)} = args.tensor<{C_TYPES[o.dtype]}>({o.position});"
            for o in plan.outputs
        ]
        lines += self.layout.sizes({o: self.passes.out(o) for o in plan.outputs}, self.loads)
        for position, value in plan.program.scalars:
            if isinstance(value, bool | int | float):
                number = repr(float(value)) if isinstance(value, float) else str(int(value))
                lines.append(
                    f'  if (args.real({position}) != {number}) KW_UNSUPPORTED("another scalar argument");'
                )
        lines += ["  Call call;"]
        lines += [
            f"  call.{n} = {n}.data();"
            for n in [*(v.name for v in self.loads), *map(self.passes.out, plan.outputs)]
        ]
        lines += self.layout.fill(self.loads)
        for o in self._element_outputs():
            bytes_ = f"{self.passes.out(o)}.numel() * int64_t(sizeof({C_TYPES[o.dtype]}))"
            lines.append(f"  kw::ask_large_pages({self.passes.out(o)}.data(), {bytes_});")
        lines += [
            "  std::unique_ptr<kw::Grand<kGrands>[]> grands(new kw::Grand<kGrands>[omp_get_max_threads() + 1]);"
        ]
        if self.streams:
            size = "call.items * call.segment_count * call.length * 4"
            aligned = " && call.length % kw::W == 0" if plan.columns else ""
            lines.append(f"  if ({size} >= kStreamFrom{aligned}) run<true>(call, grands.get());")
            lines.append("  else run<false>(call, grands.get());")
        else:
            lines.append("  run<false>(call, grands.get());")
        return [*lines, *self._grand_outputs(), "}"]

    def _kept_parameter(self) -> str:
        return ", float* kept" if self.plan.kept else ""

    def _kept_buffer(self) -> list[str]:
        """Print the buffer in which a thread keeps costly values of its row."""
        size = "call.segment_count * " + ("kBlock" if self.plan.columns else "call.length")
        many = f"{len(self.plan.kept)} * " if len(self.plan.kept) > 1 else ""
        return [f"    const std::unique_ptr<float[]> kept(new float[{many}{size}]);"]

    def _kept_pointers(self) -> list[str]:
        size = "call.segment_count * " + ("kWide * kw::W" if self.plan.columns else "call.length")
        places = [f" + {i} * {size}" if i else "" for i in range(len(self.plan.kept))]
        return [
            f"  float* const {v.name}_kept = kept{at};" for v, at in zip(self.plan.kept, places, strict=True)
        ]

    # Inside a row --------------------------------------------------------------------------------------

    def _pointers(self) -> list[str]:
        """Print where each tensor's row begins; segments and lanes are added later."""
        lines = []
        for v in self.loads:
            terms = [f"call.{v.name}"]
            if self.plan.outer and self.layout.has(v, self.plan.outer):
                terms.append(f"kw::offset(item, call.outer, call.{v.name}_outer)")
            if self.plan.columns and self.layout.on_vector(v):
                terms.append("at")
            lines.append(f"  const {C_TYPES[v.dtype]}* const {v.name}_row = {' + '.join(terms)};")
            if self.passes.prefetched_row(v):
                step = f"kw::offset(item + 1, call.outer, call.{v.name}_outer)"
                lines.append(f"  const int64_t {v.name}_next = kw::near({terms[0]} + {step} - {v.name}_row);")
        for o in self._element_outputs():
            at = ["at"] if self.plan.columns else []
            place = ["kw::offset(item, call.outer, call.out_outer)"] if self.plan.outer else []
            terms = [f"call.{self.passes.out(o)}", *place, *at]
            lines.append(f"  {C_TYPES[o.dtype]}* const {self.passes.out(o)}_row = {' + '.join(terms)};")
        return lines

    def _row_outputs(self) -> list[str]:
        """Print stores of one result per row (or column) and the sums over rows."""
        plan = self.plan
        lines = []
        for o in plan.outputs:
            if plan.levels[o.value] is Level.ROW:
                term = self.passes.term(o.value)
                assert isinstance(term, Term)
                function = "store_integers" if term.kind == "integer" else "store"
                place = "item * call.length + at + w * kw::W" if plan.columns else "item"
                lanes = "lanes" if plan.columns else "kw::Part{1}"
                lines.append(f"kw::{function}(call.{self.passes.out(o)} + {place}, {term.text}, {lanes});")
        for i, v in enumerate(self.grands):
            term = self.passes.term(v.args[0])
            assert isinstance(term, Term)
            count = "lanes.count" if plan.columns else "1"
            lines.append(f"grand.sums[{i}] += kw::sum_of({term.text}, {count});")
        if not lines:
            return []
        if plan.columns:
            lines = ["for (int w = 0; w < kWide; ++w) {", *(f"  {line}" for line in lines), "}"]
        return ["", "  if (team.leads()) {", *(f"    {line}" for line in lines), "  }"]

    def _grand_outputs(self) -> list[str]:
        """Print what follows from the sums over all rows."""
        plan = self.plan
        outputs = [o for o in plan.outputs if plan.levels[o.value] is Level.GRAND]
        if not outputs:
            return []
        lines = ["  double sums[kGrands] = {};"]
        lines.append("  for (int t = 0; t <= omp_get_max_threads(); ++t)")
        lines.append("    for (int g = 0; g < kGrands; ++g) sums[g] += grands[t].sums[g];")
        needed: set[Value] = set()
        waiting = [o.value for o in outputs]
        while waiting:
            v = waiting.pop()
            needed.add(v)
            if v not in self.grands:
                waiting.extend(a for a in v.args if isinstance(a, Value))
        for v in plan.values:
            if v not in needed:
                continue
            if v in self.grands:
                text = f"kw::splat(static_cast<float>(sums[{self.grands.index(v)}]))"
            elif v.op == "count":
                text = f"kw::splat(static_cast<float>({self.layout.count(v)}))"
            elif v.op == "load":
                text = f"kw::splat(static_cast<float>(call.{v.name}[0]))"
            elif v.op == "point":
                args = [Term(a.name, self.passes.kind(a)) if isinstance(a, Value) else a for a in v.args]
                text = print_pointwise(v.what, args, dict(v.kwargs)).text
            else:
                raise Unprintable("a scalar that depends on rows")
            lines.append(f"  const auto {v.name} = {text};")
        lines += [f"  kw::store(call.{self.passes.out(o)}, {o.value.name}, kw::Part{{1}});" for o in outputs]
        return lines

    def _element_outputs(self) -> list[Output]:
        return [o for o in self.plan.outputs if self.plan.levels[o.value] is Level.ELEMENT]
