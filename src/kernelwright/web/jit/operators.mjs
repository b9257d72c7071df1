// A step of a program → its configurations and its code. A kind of step is one entry of `KINDS`:
// `space(step, device)` lists configurations, the likeliest first; `scalar(step)` is the one without SIMD;
// `make(step, config)` gives functions, bytes of scratch, and `start`, which binds addresses and returns what runs it.

import { encode } from "./wasm.mjs";
import { lanes } from "./lanes.mjs";
import { copying } from "./copy.mjs";
import { packedBytes, packing, product, scalarProduct } from "./matmul.mjs";
import { poolOf, pooling } from "./pooling.mjs";
import { rowProgram } from "./rows.mjs";
import { convolution, frameOf, framing } from "./windows.mjs";

const BYTES = 4;
const cross = (choices) =>
  Object.entries(choices).reduce(
    (all, [name, values]) => all.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))), [{}]);
const activation = (name, wide) => (name ? (f, value) => lanes(f, wide)[name](value) : undefined);
const LOW = [[1, 4], [1, 8], [2, 4]];
/** Register tiles no higher than the output, the device's best ones or, for few rows, wide ones. */
const tiles = (device, most) =>
  [...device.tiles, ...(most < 4 ? LOW : [])].filter(([rows]) => rows <= most)
    .map(([rows, vectors]) => ({ rows, vectors }));

const rows = {
  scalar: () => ({ vectors: false, unroll: 1, fused: false }),
  space: (step, device) => cross({ vectors: [true], unroll: [2, 4, 1, 8], fused: device.fused }),
  make: (step, config) => ({
    functions: [rowProgram(step.program, config)],
    names: ["run"],
    scratch: 0,
    start: ({ run }, { inputs, outputs }) => () => run(...inputs, ...outputs),
  }),
};

const matmul = {
  scalar: () => ({ scalar: true, rows: 4, columns: 2 }),
  space: (step, device) =>
    cross({ tile: tiles(device, step.m), unroll: [1, 2], fused: device.fused, depth: step.k > 384 ? [0, 256] : [0],
      packed: step.transposed || step.n % 4 ? [true] : step.m <= 32 ? [true, false] : [true] })
      .map(({ tile, ...rest }) => ({ ...tile, ...rest })),
  make: (step, config) => {
    const { batch, m, k, n, biased, constant } = step, act = step.activation;
    const sizes = [m * k, k * n, m * n].map((size) => size * BYTES);
    if (config.scalar) {
      const start = ({ run }, { inputs: [a, b, bias], outputs: [c] }) => () => {
        for (let i = 0; i < batch; i++) run(a + i * sizes[0], b + i * sizes[1], c + i * sizes[2], bias ?? 0);
      };
      return { functions: [scalarProduct(step, config, activation(act, 1))], names: ["run"], scratch: 0, start };
    }
    const each = packedBytes(k, n, config.vectors), finish = activation(act, 4);
    const start = ({ pack, run }, { inputs: [a, b, bias = 0], outputs: [c] }, scratch) => {
      if (!config.packed)
        return () => { for (let i = 0; i < batch; i++) run(a + i * sizes[0], b + i * sizes[1], c + i * sizes[2], bias); };
      if (constant) for (let i = 0; i < batch; i++) pack(b + i * sizes[1], scratch + i * each);
      return () => {
        for (let i = 0; i < batch; i++) {
          const panels = constant ? scratch + i * each : scratch;
          if (!constant) pack(b + i * sizes[1], panels);
          run(a + i * sizes[0], panels, c + i * sizes[2], bias);
        }
      };
    };
    return {
      functions: [packing(step, config), product({ m, k, n, biased }, config, finish)], names: ["pack", "run"],
      scratch: config.packed ? each * (constant ? batch : 1) : 0, start,
    };
  },
};

const conv = {
  scalar: () => ({ rows: 4, vectors: 2, lines: 1, fused: false }),
  space: (step, device) =>
    cross({ tile: tiles(device, step.filters / step.groups), fused: device.fused })
      .map(({ tile, ...rest }) => ({ ...tile, ...rest })),
  make: (step, config) => {
    const { bare, elements = 0 } = frameOf(step), { channels, height, width, images, filters } = step;
    const size = channels * height * width * BYTES, out = frameOf(step).out;
    const functions = [convolution(step, config, step.activation ? (f, value, wide) => wide[step.activation](value) : undefined)];
    if (!bare) functions.push(framing(step));
    const start = ({ run, frame }, { inputs: [x, weight, bias = 0], outputs: [y] }, scratch, memory) => {
      if (!bare) new Float32Array(memory.buffer, scratch, elements).fill(0);
      return () => {
        for (let i = 0; i < images; i++) {
          if (!bare) frame(x + i * size, scratch);
          run(bare ? x + i * size : scratch, weight, bias, y + i * filters * out[0] * out[1] * BYTES);
        }
      };
    };
    return { functions, names: ["run", "frame"].slice(0, functions.length), scratch: elements * BYTES, start };
  },
};

const pool = {
  scalar: () => ({ vectors: 1, lines: 1 }),
  space: () => cross({ vectors: [1, 2, 4] }),
  make: (step, config) => {
    const { out, elements } = poolOf(step), fill = step.pool === "max" ? -Infinity : 0;
    const size = step.height * step.width * BYTES, made = out[0] * out[1] * BYTES;
    const start = ({ run }, { inputs: [x], outputs: [y] }, scratch, memory) => {
      new Float32Array(memory.buffer, scratch, elements).fill(fill);
      return () => {
        for (let i = 0; i < step.planes; i++) run(x + i * size, y + i * made, scratch);
      };
    };
    return { functions: [pooling(step, config)], names: ["run"], scratch: elements * BYTES, start };
  },
};

/** Softmax of scaled scores in place, a mask added where there is one. */
const softmax = (width, scale, masked) => {
  const row = { row: width * BYTES, step: BYTES }, scaled = ["mul", scale, ["in", 0]];
  const score = masked ? ["add", scaled, ["in", 1]] : scaled;
  return {
    width,
    inputs: masked ? [row, row] : [row],
    outputs: [{ row: width * BYTES }],
    passes: [
      { reduce: "most", name: "top", of: score },
      { reduce: "sum", name: "sum", store: 0, of: ["exp", ["sub", score, ["let", "top"]]] },
      { name: "share", be: ["div", 1, ["let", "sum"]] },
      { store: 0, of: ["mul", ["out", 0], ["let", "share"]] },
    ],
  };
};

const attention = {
  scalar: (step) => ({ scalar: true, rows: 4, columns: 2, block: step.queries }),
  space: (step, device) => {
    const blocks = [step.queries, 64, 32].filter((size, i) => size <= step.queries && step.queries % size === 0 && (!i || size < step.queries));
    return cross({ tile: tiles(device, step.queries).slice(0, 3), block: blocks, unroll: [1, 2], fused: device.fused })
      .map(({ tile, ...rest }) => ({ ...tile, ...rest, depth: 0, packed: true }));
  },
  make: (step, config) => {
    const { heads, queries, keys, depth, scale, masked } = step, block = config.block, plain = config.scalar;
    const first = { m: block, k: depth, n: keys, transposed: true }, second = { m: block, k: keys, n: depth };
    const make = plain ? scalarProduct : product;
    const simd = { vectors: !plain, unroll: plain ? 1 : 4, fused: config.fused };
    const soft = rowProgram({ ...softmax(keys, scale, masked), rows: block }, simd);
    const [scores, keyed, valued] = [block * keys * BYTES, plain ? 0 : packedBytes(depth, keys, config.vectors),
      plain ? 0 : packedBytes(keys, depth, config.vectors)];
    const functions = [make(first, config), soft, make(second, config)];
    if (!plain) functions.push(packing(first, config), packing(second, config));
    const start = ({ score, share, mix, packKeys, packValues }, { inputs: [q, k, v, mask], outputs: [out] }, scratch) => {
      const [s, pk, pv] = [scratch, scratch + scores + 64, scratch + scores + keyed + 128];
      return () => {
        for (let h = 0; h < heads; h++) {
          const [kh, vh] = [k, v].map((base) => base + h * keys * depth * BYTES);
          if (!plain) {
            packKeys(kh, pk);
            packValues(vh, pv);
          }
          for (let row = 0; row < queries; row += block) {
            const place = (h * queries + row) * depth * BYTES;
            score(q + place, plain ? kh : pk, s, 0);
            if (masked) share(s, mask + row * keys * BYTES, s);
            else share(s, s);
            mix(s, plain ? vh : pv, out + place, 0);
          }
        }
      };
    };
    const names = ["score", "share", "mix", "packKeys", "packValues"].slice(0, functions.length);
    return { functions, names, scratch: scores + keyed + valued + 192, start };
  },
};

const copy = {
  scalar: () => ({ vectors: false }),
  space: (step) => (step.to.at(-1) === 1 && step.from.at(-1) <= 1 ? [{ vectors: true }] : []),
  make: (step, config) => ({
    functions: [copying(step, config)],
    names: ["run"],
    scratch: 0,
    start: ({ run }, { inputs: [x], outputs: [y] }) => () => run(x, y),
  }),
};

export const KINDS = { rows, matmul, conv, pool, attention, copy };

/** Name what was tuned: equal steps of a program, and of other programs, share it. */
export const keyOf = ({ inputs, outputs, ...sizes }) => JSON.stringify(sizes);

/** Encode one step under one configuration. */
export const built = (step, config) => {
  const { functions, names, scratch, start } = KINDS[step.kind].make(step, config);
  const exported = Object.fromEntries(names.map((name, index) => [name, index]));
  return { bytes: encode(functions, exported), scratch, start };
};
