// Tunes one program with variants that are right, wrong in every element, or wrong by little; with what is known
// already; and without SIMD. node planted.mjs JIT_FOLDER CASES.json

import { readFileSync } from "node:fs";

const [folder, file] = process.argv.slice(2);
const { KINDS } = await import(`${folder}/operators.mjs`);
const { Program, worst } = await import(`${folder}/program.mjs`);
const { tune } = await import(`${folder}/tune.mjs`);
const [{ program: plain, values, expected }] = JSON.parse(readFileSync(file));
const make = KINDS.rows.make;

/** Let every variant with SIMD multiply its first output by a factor, and take no time. */
const plant = (factor) => {
  KINDS.rows.make = (step, config) => {
    const made = make(step, config), start = made.start;
    if (!config.vectors || !factor) return made;
    made.start = (exported, where, scratch, memory) => {
      const run = start(exported, where, scratch, memory), size = 4;
      return () => {
        run();
        const floats = new Float32Array(memory.buffer, where.outputs.at(-1), size);
        floats.forEach((value, i) => { floats[i] = value * factor; });
      };
    };
    return made;
  };
};

const tuned = async (name, cache, simd = true, clock = performance) => {
  const program = new Program(plain, values.map((one) => one && Float32Array.from(one)));
  await program.serveScalar();
  const device = { simd, fused: [false], tiles: [], engine: "node" };
  const { rows } = await tune({ program, expected, device, budget_s: 2, cache, clock });
  const [{ config, tried, cached, us, scalar_us }] = rows;
  const error = worst(program.call([]), expected);
  console.log(JSON.stringify({ name, simd: Boolean(config?.vectors), tried, cached, error, kept: cache?.kept.size, us, scalar_us }));
};
const empty = () => {
  const kept = new Map();
  return { kept, get: async (device, key) => kept.get(key), put: async (device, key, found) => kept.set(key, found) };
};

/** A clock in steps of 0.1 ms whose every second reading of the first comes late, as on a machine that does other work. */
const paused = () => {
  let readings = 0, late = 0;
  return { now: () => {
    if (++readings % 2 === 0 && readings < 400) late += 10;
    return Math.floor(10 * performance.now()) / 10 + late;
  } };
};

const cache = empty();
await tuned("right", cache);
await tuned("again", cache);
await tuned("paused", empty(), true, paused());
cache.kept.forEach((found) => { found.us = 0; });
await tuned("timed again", cache);
plant(1.5);
await tuned("grossly", empty());
plant(1.0005);
await tuned("slightly", empty());
await tuned("known", cache);
plant(0);
await tuned("without", empty(), false);
