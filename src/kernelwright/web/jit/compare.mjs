// The whole program in its forms, interleaved: the kernels alone, tuned and scalar, on data that is there; and a call
// that copies inputs in and outputs out, tuned and by other runtimes where they are here.

import { worst } from "./program.mjs";

const BLOCKS = 24, BLOCK_MS = 4, WARM_MS = 60;

const block = async (call, each, clock) => {
  const begun = clock.now();
  for (let i = 0; i < each; i++) await call();
  return ((clock.now() - begun) / each) * 1e3;
};

const median = (values) => values.slice().sort((a, b) => a - b)[Math.floor(values.length / 2)];

/**
 * Raw microseconds of every block, their medians, and the median over blocks of each form over its tuned one.
 * A runtime has a name, a version and a call; `floats` brings what the call gives into the order of the expected values.
 */
export const compare = async ({ program, inputs, runtimes, expected, clock = performance }) => {
  const forms = {
    "kernels, tuned": async () => program.run(),
    "kernels, scalar": async () => program.run(program.scalar),
    "call, tuned": async () => program.call(inputs),
    ...Object.fromEntries(runtimes.map(({ name, call }) => [`call, ${name}`, call])),
  };
  const found = [];
  for (const { name, version, call, floats = (results) => results } of runtimes)
    found.push({ name, version, error: worst(floats(await call()), expected) });
  const each = {}, blocks = {};
  for (const [name, call] of Object.entries(forms)) {
    let calls = 0;
    const begun = clock.now();
    do { await call(); calls++; } while (clock.now() - begun < WARM_MS || calls < 3);
    const guess = Math.max(1, Math.round(BLOCK_MS / ((clock.now() - begun) / calls)));
    for (each[name] = guess; (await block(call, each[name], clock)) * each[name] < 500 * BLOCK_MS; ) each[name] *= 2;
    blocks[name] = [];
  }
  for (let round = 0; round < BLOCKS; round++) {
    const order = Object.keys(forms);
    if (round % 2) order.reverse();
    for (const name of order) blocks[name].push(await block(forms[name], each[name], clock));
  }
  const medians = Object.fromEntries(Object.entries(blocks).map(([name, values]) => [name, median(values)]));
  const over = (name, own) => median(blocks[name].map((us, i) => us / blocks[own][i]));
  const ratios = {
    scalar: over("kernels, scalar", "kernels, tuned"),
    ...Object.fromEntries(runtimes.map(({ name }) => [name, over(`call, ${name}`, "call, tuned")])),
  };
  return { blocks, medians, ratios, runtimes: found };
};
