"""Layout: print the sizes and strides of tensors in the iteration space, and the checks on shapes."""

from collections.abc import Sequence

from ...languages.vectors import Unprintable
from ._plan import Group, Level, Plan
from ._program import Output, Value


class Layout:
    """Prints the size and stride members of a kernel's `Call`, and fills them from the tensors' shapes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loads = [v for v in plan.values if v.op == "load"]

    def has(self, value: Value, groups: Sequence[Group]) -> bool:
        """Whether a tensor varies along any of the groups."""
        return any(a in value.varies for g in groups for a in g.axes)

    def on_vector(self, value: Value) -> bool:
        """Whether a tensor varies along the vector loop."""
        return self.has(value, (self.plan.vector,))

    def members(self) -> list[str]:
        """Declare sizes and strides."""
        plan, lines = (
            self.plan,
            ["  int64_t items, segment_count, length;  // rows, loops of a row, vector loop"],
        )
        sizes = [f"n{a}" for a in self._counted()]
        if sizes:
            lines.append(f"  int64_t {', '.join(sizes)};  // sizes of reduced axes")
        lines.append(f"  std::array<int64_t, {len(plan.outer)}> outer;")
        lines.append(f"  std::array<int64_t, {len(plan.segments)}> segments;")
        for name in self._strided_names():
            lines.append(f"  std::array<int64_t, {len(plan.outer)}> {name}_outer;")
            lines.append(f"  std::array<int64_t, {len(plan.segments)}> {name}_segments;")
        return lines

    def sizes(self, outputs: dict[Output, str], loads: Sequence[Value]) -> list[str]:
        """Read every axis's size from a shape and check all shapes against them."""
        tensors = [(v.name, v.dims) for v in loads] + [(name, o.value.dims) for o, name in outputs.items()]
        known: set[int] = set()
        lines = []
        for axis in sorted(set(self.plan.order) & self.plan.program.axes.fixed):
            lines.append(f"  const int64_t n{axis} = {self.plan.program.axes.sizes[axis]};")
            known.add(axis)
        for name, dims in tensors:
            for d, axes in enumerate(dims):
                unknown = [a for a in axes if a not in known]
                if len(unknown) == 1:
                    rest = "".join(f" / n{a}" for a in axes if a != unknown[0])
                    lines.append(f"  const int64_t n{unknown[0]} = {name}.shape({d}){rest};")
                    known.add(unknown[0])
        if set(self.plan.order) - known:
            raise Unprintable("the size of an axis is not the size of any tensor's dimension")
        for name, dims in tensors:
            checks = [f"{name}.ndim() != {len(dims)}"]
            checks += [f"{name}.shape({d}) != {_product(axes)}" for d, axes in enumerate(dims)]
            lines.append(f'  if ({" || ".join(checks)}) KW_UNSUPPORTED("the shape of {name}");')
        return lines

    def fill(self, loads: Sequence[Value]) -> list[str]:
        """Fill the members."""
        plan = self.plan
        lines = [
            f"  call.items = {_product([a for g in plan.outer for a in g.axes])};",
            f"  call.segment_count = {_product([a for g in plan.segments for a in g.axes])};",
            f"  call.length = {_product(plan.vector.axes)};",
        ]
        lines += [f"  call.n{a} = n{a};" for a in self._counted()]
        lines += [f"  call.outer = {_braces(plan.outer)};", f"  call.segments = {_braces(plan.segments)};"]
        if any(v.op == "index" or v.what.startswith("arg") for v in plan.values):
            lines.append("  if (call.segment_count * call.length > INT32_MAX)")
            lines.append('    KW_UNSUPPORTED("an index beyond 32 bits");')
        tensors = [(v.name, self._present(v)) for v in loads]
        if "out" in self._strided_names():
            tensors.append(("out", set(plan.order)))
        for name, present in tensors:
            for part, groups in (("outer", plan.outer), ("segments", plan.segments)):
                strides = [self._stride(g, present) for g in groups]
                lines.append(f"  call.{name}_{part} = {{{', '.join(strides)}}};")
        return lines

    def count(self, value: Value) -> str:
        """Print the number of elements that a reduction folds."""
        return _product([f"call.n{a}" for a in value.over])

    def _present(self, value: Value) -> set[int]:
        return set(value.varies)

    def _stride(self, group: Group, present: set[int]) -> str:
        if not set(group.axes) & present:
            return "0"
        after = self.plan.order[self.plan.order.index(group.axes[-1]) + 1 :]
        return _product([a for a in after if a in present])

    def _counted(self) -> list[int]:
        return sorted({a for v in self.plan.values if v.op == "count" for a in v.over})

    def _strided_names(self) -> list[str]:
        written = any(self.plan.levels[o.value] is Level.ELEMENT for o in self.plan.outputs)
        return [*(v.name for v in self.loads), *(["out"] if written else [])]


def _product(axes: Sequence[int | str]) -> str:
    return " * ".join(a if isinstance(a, str) else f"n{a}" for a in axes) or "int64_t{1}"


def _braces(groups: Sequence[Group]) -> str:
    return "{" + ", ".join(_product(g.axes) for g in groups) + "}"
