# ruff: noqa: E501 - the lines of the manual as they are read, where names stand in place of braces
"""Description → manual, in Markdown: all that a writer of programs is told, at most twelve pages."""

from ._assembler import Program
from ._description import Description, Operation
from ._operations import Role

_UNITS = {
    "scalar": "Scalars and settings", "control": "Control", "memory": "Scratchpad", "vector": "Vectors",
    "reduce": "Reductions", "matrix": "Tiles", "dma": "Transfers",
}  # fmt: skip


def manual(d: Description, example: str = "") -> str:
    """Write the manual of an instruction set.

    Args:
        d: Its description.
        example: A program to show at the end.

    Example:
        >>> from kernelwright.craft import TESSERA
        >>> manual(TESSERA).splitlines()[0]
        '# The tessera accelerator'
    """
    parts = [_machine(d), _text(d), _rules(d), _instructions(d), _costs(d)]
    if example:
        lines = f"```text\n{example.rstrip()}\n```"
        parts.append(
            f"## An example\n\nA plain, right and slow program for out[i] = the larger of x[i] and 0:\n\n{lines}"
        )
    return "\n\n".join(parts) + "\n"


def _machine(d: Description) -> str:
    s, v, m, q = (d.registers[c] for c in "svmq")
    unit = "words" if d.unit == 1 else f"bytes, {d.unit} a word"
    return f"""# The {d.name} accelerator

A processor for tiles of float32. A program runs on scalars, vectors and tiles; data comes from memory into a scratchpad
and goes back by transfers (DMA) that run concurrently with the program.

## The machine

- {s[1]} scalar registers `{s[0]}0` to `{s[0]}{s[1] - 1}`: whole numbers of 32 bits with sign, which wrap around.
- {v[1]} vector registers `{v[0]}0` to `{v[0]}{v[1] - 1}`, {d.lanes} lanes of float32 each. The *vector length* says how many first
  lanes take part; it is {d.lanes} at the start.
- {m[1]} tile registers `{m[0]}0` to `{m[0]}{m[1] - 1}`, {d.tile} rows of {d.tile} float32 each.
- A scratchpad of {d.scratch_words} words. A word holds one float32. Addresses and strides count {unit}. An address is
  *aligned* if it is a multiple of {d.align * d.unit}.
- Memory, which holds the tensors of the task. Only transfers reach it. Rows of a tensor follow each other without gaps.
- {q[1]} queues of transfers, `{q[0]}0` to `{q[0]}{q[1] - 1}`. Transfers of one queue run in order, those of several side by side.

At the start the first scalar registers hold, in this order: the memory address of each input, of each output, of a
workspace in memory, and then the sizes of the task. All other registers and the scratchpad hold nothing, and what holds
nothing must not be read. The task says how many words the workspace has."""


def _text(d: Description) -> str:
    return f"""## The text of a program

One instruction a line: its name, a space, and its operands in the order of the table below, with commas between them.
`name:` is a label for the instruction that follows. `{d.comment}` begins a comment. Whole numbers are decimal or `0x`; float32
numbers are written as `0.5`, `1e-5` or `-inf`. A program has at most {d.most_instructions} instructions and is encoded with 64 bits each:
8 bits opcode, three fields of 8 bits for registers in the order of the text, 32 bits for a number or a label."""


def _rules(d: Description) -> str:
    s, name = d.semantics, {k: o.name for k, o in d.by_kind.items()}
    tail = "keep what they held" if s.tail == "kept" else "become 0"
    reduce = "every lane up to the vector length" if s.reduce == "all" else "lane 0 alone"
    return f"""## Rules

- **Lanes past the vector length.** A vector instruction does not read them, and those of its result {tail}.
- **Reductions** write {reduce}.
- **Transfers.** `{name["din"]}` and `{name["dout"]}` start a transfer and go on at once. Until it was waited for, the scratchpad words
  it writes must not be read or written, those it reads must not be written, and the same holds in memory. A transfer
  takes its shape and strides from its queue at the time it starts; rows of one word each are allowed, so that strided
  data can be moved. Every transfer must be waited for before `{name["halt"]}`.
- **Double buffering.** Start the transfer of the next rows into a second place before computing on the first, and wait
  for the older transfer only.
- **Tile products** run concurrently with the program. Until `{name["mwait"]}`, a tile register that products are added to must not be
  stored, transposed, loaded or used as a factor; more products may be added to it. It must not be its own factor.
- **Alignment.** `{name["vld"]}`, `{name["vst"]}`, `{name["mld"]}` and `{name["mst"]}` need aligned addresses, and tile rows aligned strides. To keep rows
  of any length aligned, give them a stride rounded up with `{name["rup"]}` in the scratchpad.
- **Faults.** A program that breaks a rule, reads what holds nothing, leaves a memory or a tensor, writes an input, or
  does not end, is stopped, and the line is named. Inputs are read-only; every word of the output must be written.
- **Rounding.** Every result is rounded to float32 once, to nearest, unless the table says more."""


def _instructions(d: Description) -> str:
    parts = [
        "## Instructions\n\nOperands: "
        + ", ".join(
            f"`{d.registers[c][0]}` {w}"
            for c, w in (("s", "scalar"), ("v", "vector"), ("m", "tile"), ("q", "queue"))
        )
        + ". `[w]` is written, `[rw]` read and written."
    ]
    for unit, title in _UNITS.items():
        rows = [_row(o, d) for o in d.operations if o.kind.unit == unit]
        parts.append(
            f"### {title}\n\n| text | opcode | meaning | latency | busy |\n|---|---|---|---|---|\n"
            + "\n".join(rows)
        )
    return "\n\n".join(parts)


def _row(o: Operation, d: Description) -> str:
    operands = ", ".join(_operand(r, d) for r in o.roles)
    meaning = _meaning(o, d)
    return f"| `{f'{o.name} {operands}'.strip()}` | {o.opcode} | {meaning} | {o.latency} | {o.busy} |"


def _operand(role: Role, d: Description) -> str:
    if role.cls in d.registers:
        access = f"[{role.access}]" if "w" in role.access else ""
        return f"{d.registers[role.cls][0]}:{role.name}{access}"
    return {"int": "number", "float": "float", "label": "label"}[role.cls] + f":{role.name}"


def _meaning(o: Operation, d: Description) -> str:
    s = d.semantics
    products = {"AB": "{a} times {b}", "ATB": "{a} transposed, times {b}", "ABT": "{a} times {b} transposed"}
    waits = {
        "left": "wait until at most {i} transfers of {q} are left, the oldest end first",
        "oldest": "wait for the {i} oldest transfers of {q}; 0 waits for all",
    }
    turned = {
        "a-b": "{d} = {a} - {b}",
        "b-a": "{d} = {b} - {a}",
        "a/b": "{d} = {a} / {b}",
        "b/a": "{d} = {b} / {a}",
    }
    compared = {"a>b": "lane = 1 where {a} > {b}, else 0", "b>a": "lane = 1 where {b} > {a}, else 0"}
    names = {r.name: r.name for r in o.roles}
    sentences = {
        "sub": turned[s.subtract], "div": turned[s.divide], "gt": compared[s.compare],
        "mma": "{d} = {d} + " + products[s.mma] + "; terms are added in the order of the inner index, each product and "
        "each sum rounded", "wait": waits[s.wait],
        "reduce": "{d} =" if s.reduce == "all" else "lane 0 of {d} =",
    }  # fmt: skip
    filled = o.kind.meaning.format(
        **names, **sentences, VL=d.lanes, T=d.tile, half=d.lanes // 2
    ) if set(sentences) & _fields(o.kind.meaning) else o.kind.meaning.format(
        **names, VL=d.lanes, T=d.tile, half=d.lanes // 2
    )  # fmt: skip
    return filled.format(**names) if "{" in filled else filled


def _fields(text: str) -> set[str]:
    return {part.partition("}")[0] for part in text.split("{")[1:]}


def _costs(d: Description) -> str:
    k = {kind: operation.name for kind, operation in d.by_kind.items()}
    return f"""## Cycles

Cycles count from 0. One instruction issues each cycle, in order, as soon as the registers it reads are ready, its unit is
free, and a register it writes would not be overtaken: its result may not be ready before that of an earlier instruction.
*Latency* is the cycles until its result can be read; *busy* the cycles for which its unit takes no other. Each table above
is one unit; the scratchpad's is its one port. After a taken branch the next instruction issues {d.branch} cycles later. A program
takes the cycles up to that of `{k["halt"]}`, and one for it.

A transfer starts when its queue is free, at the earliest in the cycle after its instruction, waits {d.dma_latency} cycles, and then
holds the one channel to memory for {d.dma_row} cycle{"s" * (d.dma_row > 1)} a row and 1 cycle for every {d.dma_words} words of all its rows. Its queue is free when
it has ended. Waiting times of different queues overlap. A queue holds {d.dma_depth} transfers that run; with one more the program goes on
when one has ended. After `{k["mwait"]}` and `{k["dwait"]}` the next instruction issues when what they wait for has ended."""


def listing(program: Program) -> str:
    """Return a program with the binary form next to each line."""
    data = program.encode()
    words = {i.line: data[8 * n : 8 * n + 8][::-1].hex() for n, i in enumerate(program.instructions)}
    return "\n".join(f"{words.get(n, ''):16}  {n:4}  {line}" for n, line in enumerate(program.source, 1))
