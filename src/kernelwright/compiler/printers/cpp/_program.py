"""Program → C++ files: a function for each kernel, and the entry that checks sizes and calls them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...graph import Size, product
from ...tile import (
    LANES,
    WINOGRAD_PANELS,
    Buffer,
    Contraction,
    Kernel,
    NativeCall,
    Program,
    Section,
    Store,
    pattern,
    products,
    sections_of,
    statements,
    touched,
)  # fmt: skip
from ._ahead import asked_ahead, is_large
from ._contraction import is_tiled, is_wide, print_contraction
from ._gradients import gradients
from ._memory import is_fixed, places_of
from ._scalar import STORED, size_text
from ._shared import declarations, files_of, shared_by
from ._statements import Body

_FULL_FILE = 40_000
"""Characters of kernels that fill a file: compiling them takes ten times as long as beginning another file does."""
_PACKED = ("tile_unit.h", "tile_kernel.h", "register_tiles.h", "gemm.h")
_TURNED = ("pixels.h", "channels_last.h", "winograd_panels.h")


@dataclass(frozen=True)
class Style:
    """Options of the C++ printer that the tile form does not cover."""

    lanes: bool = True
    """Whether vector loops are printed with vector types."""
    serial_below: int = 1 << 14
    """Elements below which one thread runs alone."""


@dataclass
class Printer:
    """Prints one program."""

    program: Program
    style: Style

    def text(self, title: str, entries: Sequence[str] = ()) -> str:
        """Return one file: kernels, then one entry, or one for each step if torch computes some of them."""
        return "\n".join([*self._opening(title, self.kernels), *self._entries(entries)]).rstrip() + "\n"

    def files(self, title: str, entries: Sequence[str] = ()) -> dict[str, str]:
        """Return texts by file name: as `text` does, with kernels that compile slowly in files of their own.

        Compilers work on them at the same time, and a schedule that changes one kernel has one file compiled again.
        """
        apart, common = self._apart(), files_of(self._common(self.kernels))
        if not apart and not common:
            return {"kernel.cpp": self.text(title, entries)}
        others = [s for steps in apart for s in steps]
        declared = [line for s in others for line in (*self._template(s), f"{self._signature(s)};")]
        lines = self._opening(title, [s for s in self.kernels if s not in others], apart=True)
        calls = ["// Compiled in files of their own.", *declared, ""] if declared else []
        files = {"kernel.cpp": [*lines, *calls, *self._entries(entries)]}
        for steps in apart:
            also = f" to {steps[-1].name}" if len(steps) > 1 else ""
            instances = [line for s in steps for line in self._instances(s)]
            files[f"{steps[0].name}.cpp"] = [
                *self._opening(f"{steps[0].name}{also} of {self.program.name}", steps, apart=True, shared=True),
                *instances,
            ]  # fmt: skip
        return {name: "\n".join(lines).rstrip() + "\n" for name, lines in (files | common).items()}

    @cached_property
    def kernels(self) -> list[Kernel | Contraction]:
        """The kernels that are printed: of those that differ in names only, the first."""
        steps = [s for s in self.program.steps if not isinstance(s, NativeCall)]
        return [s for s in steps if self.functions[s.name] == s.name]

    @cached_property
    def _printed(self) -> dict[str, list[str]]:
        """The lines of each kernel's function, by the kernel's name."""
        return {s.name: self._function(s) for s in self.kernels}

    def _apart(self) -> list[list[Kernel | Contraction]]:
        """Group the kernels that get files of their own: a product one each, the others as many as fill one."""
        if len(self.kernels) == 1:
            return []
        slow = [[s] for s in self.kernels if self._is_slow(s)]
        full, group, size = list[list[Kernel | Contraction]](), list[Kernel | Contraction](), 0
        for step in (s for s in self.kernels if not self._is_slow(s)):
            group.append(step)
            size += sum(map(len, self._printed[step.name]))
            if size > _FULL_FILE:
                full.append(group)
                group, size = [], 0
        return [*slow, *full]

    def _common(self, steps: Sequence[Kernel | Contraction]) -> list[list[str]]:
        return shared_by(steps, self.program) if self.style.lanes else []

    def _is_slow(self, step: Kernel | Contraction) -> bool:
        return any(map(is_tiled, products([step]))) or (isinstance(step, Kernel) and bool(step.gradients))

    def headers(self, steps: Sequence[Kernel | Contraction]) -> tuple[str, ...]:
        """Name the headers that a file of these kernels includes, first the one that every file begins with."""
        found = list(products(steps)) if self.style.lanes else []
        forms = {
            "winograd": ("winograd.h",), "packed": _PACKED, "convolve": ("pixels.h", "blocks.h", "convolution.h"),
            "channels-last": _TURNED[:2], **dict.fromkeys(WINOGRAD_PANELS, _TURNED),
            "online": (*_PACKED, "attention.h"),
        }  # fmt: skip
        differentiated = [s for s in steps if isinstance(s, Kernel) and s.gradients and self.style.lanes]
        wanted = (names for form, names in forms.items() if any(p.tiling.form == form for p in found))
        further = dict.fromkeys(name for names in wanted for name in names)
        if any(is_wide(p, self.program) for p in found):
            further |= dict.fromkeys((*_PACKED, "computed.h"))
        further |= dict.fromkeys((*_PACKED, "attention.h", "attention_gradient.h") if differentiated else ())
        return (
            ("tiles.h", "micro_kernel.h", "contraction.h", *further)
            if further or any(map(is_tiled, found))
            else ("tiles.h",)
        )

    def _opening(
        self, title: str, steps: Sequence[Kernel | Contraction], *, apart: bool = False, shared: bool = False
    ) -> list[str]:
        """Print a file up to its last kernel.

        If `apart`, another file compiles what depends on no kernel; `shared` kernels can be called from other files.
        """
        constant = [
            f"constexpr int64_t kSerialBelow = {self.style.serial_below};  // elements of one thread",
            "",
        ]
        kernels = [line for step in steps for line in (*self._printed[step.name], "")]
        end = ["}  // namespace", ""]
        return [
            *(f"// {line}" for line in title.splitlines()), *(f'#include "{name}"' for name in self.headers(steps)),
            "", *(declarations(self._common(steps)) if apart else ()),
            "namespace {", "", *constant, *((*end, *kernels) if shared else (*kernels, *end)),
        ]  # fmt: skip

    def _entries(self, entries: Sequence[str]) -> list[str]:
        if not entries:
            return self._entry()
        kernels = [s for s in self.program.steps if not isinstance(s, NativeCall)]
        inside = {step.name for section in self.sections.values() for step in section.steps}
        alone = {self.functions[step.name] for step in kernels if step.name not in inside}
        lines = [line for s in self.kernels if s.name in alone for line in (*self._lone_entry(s), "")]
        return [
            *lines,
            *(x for e, section in self.sections.items() for x in (*self._section_entry(e, section), "")),
        ]

    @cached_property
    def functions(self) -> dict[str, str]:
        """Kernel → the function that it runs: that of the first kernel that differs in names only."""
        kernels = [step for step in self.program.steps if not isinstance(step, NativeCall)]
        first = dict[Hashable, str]()
        return {s.name: first.setdefault((pattern(s, self.program), *self.sizes(s)), s.name) for s in kernels}

    # One kernel ----------------------------------------------------------------------------------------

    def touched(self, step: Kernel | Contraction) -> tuple[list[Buffer], list[Buffer]]:
        """Return the buffers that a kernel reads and those that it writes."""
        reads, writes = touched(step)
        return [self.program.buffer(n) for n in reads], [self.program.buffer(n) for n in writes]

    def sizes(self, step: Kernel | Contraction) -> list[str]:
        """Name the sizes that a kernel receives: all of the program's, or only the weights' if it runs ahead."""
        program = self.program
        return list(program.weight_sizes if step.name in program.ahead else program.symbols)

    def _signature(self, step: Kernel | Contraction, version: str = "") -> str:
        """Print name and parameters of a kernel's function; given the arguments of its template, of that version."""
        reads, writes = self.touched(step)
        parameters = [f"const {STORED[b.dtype]}* {b.name}" for b in reads]
        parameters += [f"{STORED[b.dtype]}* {b.name}" for b in writes]
        parameters += [f"int64_t {'given_' * (name in _known(step))}{name}" for name in self.sizes(step)]
        return f"void {step.name}{version}({', '.join(parameters)})"

    def _template(self, step: Kernel | Contraction) -> list[str]:
        """Print what makes a function a version for compile-time sizes; 0 is any size."""
        parameters = [f"int64_t known_{name} = 0" for name in _known(step)]
        parameters += [f"bool whole_{name} = false" for name in _whole(step)]
        return [f"template <{', '.join(parameters)}>"] if parameters else []

    def _instances(self, step: Kernel | Contraction) -> list[str]:
        """Print the versions that other files call, if the function is a template."""
        if not self._template(step):
            return []
        return [f"template {self._signature(step, version)};" for version in (f"<{_version(step)}>", "<>")]

    def _function(self, step: Kernel | Contraction) -> list[str]:
        reads, writes = self.touched(step)
        known, whole = _known(step), _whole(step)
        shown = [f"{name} = {size}" for name, size in known.items()]
        shown += [f"multiples of {LANES} as {name}" for name in whole]
        also = [name for name, function in self.functions.items() if function == step.name != name]
        head = [
            f"// {step.comment}",
            *([f"// Runs on other buffers as {', '.join(also)}."] if also else []),
            f"// Reads {_traffic(reads)}; writes {_traffic(writes)}.",
            *([f"// Compiled for {', '.join(shown)} too, where loops have no tail."] if shown else []),
            *self._template(step),
        ]
        if isinstance(step, Kernel) and step.gradients and self.style.lanes:
            body = gradients(step.gradients, self.program)
        elif isinstance(step, Contraction):
            body = print_contraction(step, self.program, self.style.lanes)
        else:
            body = self._traversal(step)
        sizes = [f"  const int64_t {name} = known_{name} ? known_{name} : given_{name};" for name in known]
        unused = [f"  (void){name};" for name in self.sizes(step)]
        return [*head, f"{self._signature(step)} {{", *sizes, *unused, *body, "}"]

    def _traversal(self, kernel: Kernel) -> list[str]:
        past = {s.buffer: s.stream for s in statements(kernel.body) if isinstance(s, Store) and s.stream}
        buffers = [b.name for side in self.touched(kernel) for b in side]
        sizes = [name for name in self.sizes(kernel) if name not in _known(kernel)]
        body = Body(
            self.program,
            own=[*buffers, *(f"{name}_past" for name in past), *sizes],
            contraction=print_contraction,
            vector=self.style.lanes,
            whole=kernel.whole,
            ahead=asked_ahead(self.program, kernel.body),
        )
        head = [
            f"  const bool {name}_past = {size_text(self.program.buffer(name).elements)} * "
            f"int64_t(sizeof(float)) >= {start};  // written past the caches"
            for name, start in past.items()
        ]  # fmt: skip
        return [*head, *body.print(kernel.body), *(["  kw::fence();"] if past else [])]

    # Entries -------------------------------------------------------------------------------------------

    def _entry(self) -> list[str]:
        outside = [b for b in self.program.buffers if b.role in ("argument", "output")]
        lines = [f"KW_KERNEL({self.program.name}) {{", *self.opened(outside), *self.checked(outside)]
        steps = [s for s in self.program.steps if not isinstance(s, NativeCall)]
        return [*lines, *self._steps(outside, steps), "}"]

    @cached_property
    def sections(self) -> dict[str, Section]:
        """Entry → the section that it runs, where Python runs the program."""
        return {f"{self.program.name}_calls{i or ''}": s for i, s in enumerate(sections_of(self.program))}

    def given(self, section: Section) -> list[Buffer]:
        """Return the buffers that a section's entry is given: what it reads from outside, then what it leaves there."""
        return [self.program.buffer(name) for name in (*section.reads, *section.writes)]

    def _section_entry(self, entry: str, section: Section) -> list[str]:
        """Print the entry that runs a section: what it is given, the sizes."""
        outside = self.given(section)
        lines = [f"KW_KERNEL({entry}) {{"]
        for place, b in enumerate(outside):
            const = "const " if b.name in section.reads else ""
            lines.append(f"  const auto {b.name} = args.tensor<{const}{STORED[b.dtype]}>({place});")
        for place, name in enumerate(self.program.symbols):
            lines.append(f"  const int64_t {name} = args.integer({len(outside) + place});")
        return [*lines, *self._steps(outside, section.steps), "}"]

    def _steps(self, outside: Sequence[Buffer], steps: Sequence[Kernel | Contraction]) -> list[str]:
        """Print memory for what lies between the kernels, and their calls in order."""
        given = {b.name for b in outside}
        within = {
            b.name: b for step in steps for side in self.touched(step) for b in side if b.name not in given
        }
        fixed = [b for b in within.values() if is_fixed(b)]
        places = places_of(fixed, steps)
        lines = [f"  const kw::Temporary<char> room({places.size_bytes});"] if len(fixed) > 1 else []
        for b in within.values():
            kind = STORED[b.dtype]
            if len(fixed) > 1 and b in fixed:
                at = places.offsets[b.name]
                lines.append(f"  {kind}* const {b.name} = reinterpret_cast<{kind}*>(room.data + {at});")
            else:
                lines.append(f"  const kw::Temporary<{kind}> {b.name}_room({size_text(product(b.shape))});")
                lines.append(f"  {kind}* const {b.name} = {b.name}_room.data;")
        lines += _paged([b for b in outside if b.role == "output"])
        for step in steps:
            reads, writes = self.touched(step)
            lines += self._launch(
                step, [f"{b.name}{'' if b.name in within else '.data()'}" for b in (*reads, *writes)]
            )
        return lines

    def _launch(self, step: Kernel | Contraction, given: Sequence[str]) -> list[str]:
        """Print the call of a kernel: of the version for these sizes, if there is one."""
        known, whole, arguments = _known(step), _whole(step), ", ".join([*given, *self.sizes(step)])
        function = self.functions[step.name]
        if not known and not whole:
            return [f"  {function}({arguments});"]
        guard = [f"{name} == {size}" for name, size in known.items()]
        guard += [f"{name} % {LANES} == 0" for name in whole]
        return [
            f"  if ({' && '.join(guard)}) {{",
            f"    {function}<{_version(step)}>({arguments});",
            "  } else {",
            f"    {function}({arguments});",
            "  }",
        ]

    def _lone_entry(self, step: Kernel | Contraction) -> list[str]:
        """Print an entry of one kernel: the buffers that it reads, those that it writes, the sizes."""
        reads, writes = self.touched(step)
        lines = [f"KW_KERNEL({step.name}_entry) {{"]
        for place, b in enumerate((*reads, *writes)):
            const = "const " if b in reads else ""
            lines.append(f"  const auto {b.name} = args.tensor<{const}{STORED[b.dtype]}>({place});")
        first = len(reads) + len(writes)
        for place, name in enumerate(self.sizes(step)):
            lines.append(f"  const int64_t {name} = args.integer({first + place});")
        lines += _paged(writes)
        return [*lines, *self._launch(step, [f"{b.name}.data()" for b in (*reads, *writes)]), "}"]

    def opened(self, outside: Sequence[Buffer]) -> list[str]:
        """Print the tensors and sizes of a call."""
        lines = []
        for b in outside:
            const = "const " if b.role == "argument" else ""
            lines.append(f"  const auto {b.name} = args.tensor<{const}{STORED[b.dtype]}>({b.position});")
        for b in outside:
            rank = len(b.shape)
            lines.append(
                f'  if ({b.name}.ndim() != {rank}) KW_UNSUPPORTED("{b.name} must have {rank} dimensions");'
            )
        by_position = {b.position: b.name for b in outside if b.role == "argument"}
        for name, (position, dim) in self.program.symbols.items():
            lines.append(f"  const int64_t {name} = {by_position[position]}.shape({dim});")
        for position, value in self.program.scalars:
            if isinstance(value, bool | int | float):
                lines.append(
                    f'  if (args.real({position}) != {float(value)!r}) KW_UNSUPPORTED("another scalar argument");'
                )
        return lines

    def checked(self, outside: Sequence[Buffer]) -> list[str]:
        """Print the check that every size is what the kernel was written for."""
        lines = []
        for b in outside:
            wrong = [
                f"{b.name}.shape({d}) != {size_text(s)}" for d, s in enumerate(b.shape)
                if not (isinstance(s, Size) and self.program.symbols.get(s.text) == (b.position, d))
            ]  # fmt: skip
            if wrong:
                lines.append(f'  if ({" || ".join(wrong)}) KW_UNSUPPORTED("{b.name} has another shape");')
        for guard in self.program.guards:
            lines.append(
                f'  if (!({guard.replace("//", "/")})) KW_UNSUPPORTED("sizes must satisfy {guard}");'
            )
        return lines


def _paged(written: Sequence[Buffer]) -> list[str]:
    """Print the request to the system for large results (huge pages) before the first write."""
    return [
        f"  kw::ask_large_pages({b.name}.data(), {b.name}.numel() * int64_t(sizeof({STORED[b.dtype]})));"
        for b in written if is_large(b)
    ]  # fmt: skip


def _known(step: Kernel | Contraction) -> dict[str, int]:
    """Return the sizes that a kernel has an extra version for."""
    return dict(step.known) if isinstance(step, Kernel) else {}


def _whole(step: Kernel | Contraction) -> tuple[str, ...]:
    """Return the sizes that are multiples of a vector in that version."""
    return step.whole if isinstance(step, Kernel) else ()


def _version(step: Kernel | Contraction) -> str:
    """Print the arguments of the template for the extra version."""
    return ", ".join([*map(str, _known(step).values()), *("true" for _ in _whole(step))])


def _traffic(buffers: Sequence[Buffer]) -> str:
    shown = [f"{b.name} ({' * '.join(map(str, b.shape)) or '1'} {b.dtype})" for b in buffers]
    return ", ".join(shown) or "nothing"
