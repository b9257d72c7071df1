// Online tuning: each distinct step within its share of the budget, the fastest variant that is right takes over.
// A variant that disagrees with the contract is never served; where none is faster, the scalar build stays.

import { KINDS, keyOf } from "./operators.mjs";
import { worst } from "./program.mjs";

const WARM_MS = 4, SAMPLE_MS = 0.4, SAMPLES = 5, FINALISTS = 4, ROUNDS = 12, LEAST_GAIN = 1.02, ALIKE = 1e-2;
const LEAST_S = 0.15;

/** Microseconds of a call: warmed up until the engine has optimised it, then the least of some samples. */
const timed = (run, clock, samples = SAMPLES) => {
  let calls = 0;
  const begun = clock.now();
  do { run(); calls++; } while (clock.now() - begun < WARM_MS || calls < 3);
  const each = enough(Math.round(SAMPLE_MS / ((clock.now() - begun) / calls)), run, clock);
  return { each, us: sampled(run, clock, each, samples) };
};
/** Calls of a sample: as many as take half its time, however coarse the clock and whatever paused the calls before. */
const enough = (guess, run, clock) => {
  for (let each = Math.max(1, guess); ; each *= 2) {
    const begun = clock.now();
    for (let i = 0; i < each; i++) run();
    if (clock.now() - begun >= SAMPLE_MS / 2) return each;
  }
};
const sampled = (run, clock, each, samples) => {
  let best = Infinity;
  for (let s = 0; s < samples; s++) {
    const begun = clock.now();
    for (let i = 0; i < each; i++) run();
    const spent = clock.now() - begun;
    if (spent > 0) best = Math.min(best, spent / each);
  }
  return best * 1e3;
};

const alike = (program, step, expected) =>
  step.outputs.every((tensor, index) => {
    const [now, then] = [program.floats(tensor), expected[index]];
    const scale = then.reduce((most, value) => (Math.abs(value) < Infinity ? Math.max(most, Math.abs(value)) : most), 0);
    return now.every((value, i) => Math.abs(value - then[i]) <= ALIKE * (scale || 1) || Object.is(value, then[i]));
  });

/** Tune a program in place; `report` hears of each step. Returns one row for each step. */
export const tune = async ({ program, expected, device, budget_s, cache, report = () => {}, clock = performance }) => {
  const begun = clock.now(), rows = [], found = new Map();
  program.run();
  const shares = program.steps.map((_, index) => timed(program.scalar[index].run, clock, 2).us);
  const order = program.steps.map((_, index) => index).sort((a, b) => shares[b] - shares[a]);
  const distinct = new Map(order.map((index) => [keyOf(program.steps[index]), 0]));
  order.forEach((index) => distinct.set(keyOf(program.steps[index]), distinct.get(keyOf(program.steps[index])) + shares[index]));
  let weight = [...distinct.values()].reduce((sum, share) => sum + share, 0);
  const seconds = () => (clock.now() - begun) / 1e3;

  for (const index of order) {
    const step = program.steps[index], key = keyOf(step);
    let row = found.get(key);
    if (!row) {
      const left = Math.max(0, budget_s - seconds()), share = (left * distinct.get(key)) / weight;
      weight -= distinct.get(key);
      const known = await cache?.get(device, key);
      row = known
        ? { config: known.config, cached: true, tried: 0, space: known.space, scalar_us: shares[index], us: known.us }
        : await choose(program, index, { expected, device, clock, until: clock.now() + 1e3 * Math.max(LEAST_S, share) });
      found.set(key, row);
      if (!known && row.config) await cache?.put(device, key, { config: row.config, space: row.space, us: row.us });
    }
    const fits = row.config && (await serve(program, index, row.config, expected));
    if (row.config && !fits) row = { ...row, config: null };
    // of what is known both times are of this visit
    if (row.cached) row = { ...row, scalar_us: timed(program.scalar[index].run, clock).us, us: timed(program.served[index].run, clock).us };
    rows[index] = { step: index, kind: step.kind, key, ...row, seconds: seconds() };
    report(rows[index], rows.filter(Boolean).length, program.steps.length);
    await new Promise((next) => setTimeout(next));
  }
  return { rows, seconds: seconds() };
};

/** Let a variant serve a step, unless the program's results then miss the contract. */
const serve = async (program, index, config, expected) => {
  const before = program.served[index];
  program.served[index] = await program.variant(program.steps[index], config);
  if (right(program, expected)) return true;
  program.served[index] = before;
  return false;
};

const right = (program, expected) => {
  program.poison();
  program.run();
  return worst(program.outputs.map((tensor) => program.floats(tensor)), expected) <= 1;
};

const choose = async (program, index, { expected, device, clock, until }) => {
  const step = program.steps[index], native = program.scalar[index];
  native.run();
  const before = step.outputs.map((tensor) => program.floats(tensor).slice());
  const space = device.simd ? KINDS[step.kind].space(step, device) : [], tried = [], wrong = [];
  const end = program.end, served = program.served[index];
  let making_ms = 0;
  for (const config of space) {
    if (tried.length > 1 && clock.now() > until) break;
    program.end = end;
    const made = clock.now(), variant = await program.variant(step, config);
    making_ms += clock.now() - made;
    for (const tensor of step.outputs) program.floats(tensor).fill(NaN);
    variant.run();
    if (!alike(program, step, before)) wrong.push(config);
    else tried.push({ config, ...timed(variant.run, clock) });
  }
  const finalists = [];
  program.end = end;
  for (const one of tried.sort((a, b) => a.us - b.us).slice(0, FINALISTS))
    finalists.push({ ...one, us: Infinity, variant: await program.variant(step, one.config) });
  let scalar_us = Infinity;
  const each = timed(native.run, clock, 1).each;
  for (const one of finalists) timed(one.variant.run, clock, 1);
  for (let round = 0; round < ROUNDS; round++) {
    scalar_us = Math.min(scalar_us, sampled(native.run, clock, each, 1));
    for (const one of finalists) one.us = Math.min(one.us, sampled(one.variant.run, clock, one.each, 1));
  }
  const found = { us: scalar_us, scalar_us, tried: tried.length, space: space.length, wrong, making_ms };
  let config = null;
  for (const one of finalists.sort((a, b) => a.us - b.us)) {
    if (scalar_us < LEAST_GAIN * one.us) break;
    program.served[index] = one.variant;
    if (right(program, expected)) {
      config = one.config;
      found.us = one.us;
      break;
    }
    wrong.push(one.config);
  }
  program.served[index] = served;
  program.end = end;
  return { ...found, config };
};
