// What the engine and the processor can do, found in milliseconds: whether relaxed SIMD is there, and which register
// tiles of the product come first. The space of every product, convolution and attention is built from it.

import { built } from "./operators.mjs";
import { Func, V128, encode, f32x4, v128 } from "./wasm.mjs";

const TILES = [[8, 1], [4, 2], [5, 2], [6, 2], [3, 3], [4, 3]];
const KEPT = 4, SIDE = 48, WARM_MS = 8, ROUNDS = 8, CALLS = 16;

const DROP = 0x1a;
const takes = (value) => {
  const f = new Func([]);
  f.body = [value, DROP];
  return WebAssembly.validate(encode([f], { run: 0 }));
};
/** Whether the engine takes SIMD, and relaxed SIMD's fused multiply and add. */
export const hasSimd = () => takes(v128.const(1));
export const hasFused = () => takes(f32x4.madd(v128.const(1), v128.const(1), v128.const(1)));

/** Describe the device: its engine by name, what it takes, its tiles with the fastest first. */
export const probe = async (clock = performance) => {
  const simd = hasSimd(), fused = hasFused() ? [true, false] : [false];
  if (!simd) return { engine: engine(), simd, fused, tiles: [], timed: [] };
  const memory = new WebAssembly.Memory({ initial: 4 });
  const step = { kind: "matmul", batch: 1, m: SIDE, k: SIDE, n: SIDE, biased: false, constant: true };
  const place = { inputs: [1024, 1024 + 4 * SIDE * SIDE], outputs: [1024 + 8 * SIDE * SIDE] };
  const timed = [];
  for (const tile of TILES) {
    const config = { rows: tile[0], vectors: tile[1], unroll: 1, fused: fused[0], depth: 0, packed: true };
    const { bytes, start } = built(step, config);
    const { instance } = await WebAssembly.instantiate(bytes, { env: { memory } });
    const run = start(instance.exports, place, 1024 + 16 * SIDE * SIDE, memory);
    for (const end = clock.now() + WARM_MS; clock.now() < end; ) run();
    timed.push({ tile, run, us: Infinity });
  }
  for (let round = 0; round < ROUNDS; round++)
    for (const one of timed) one.us = Math.min(one.us, perCall(one.run, clock));
  timed.sort((one, other) => one.us - other.us);
  const tiles = timed.slice(0, KEPT).map(({ tile }) => tile);
  return { engine: engine(), simd, fused, tiles, timed: timed.map(({ tile, us }) => ({ tile, us })) };
};

const perCall = (run, clock) => {
  const begun = clock.now();
  for (let i = 0; i < CALLS; i++) run();
  return ((clock.now() - begun) / CALLS) * 1e3;
};

const engine = () => {
  const agent = globalThis.navigator?.userAgent ?? `node ${globalThis.process?.version}`;
  return `${agent}; ${globalThis.navigator?.hardwareConcurrency ?? "?"} cores`;
};
