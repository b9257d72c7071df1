// Runs every configuration of every step of the programs in a file, in Node, and prints a line of JSON for each program.
// node check.mjs JIT_FOLDER CASES.json

import { readFileSync } from "node:fs";

const [folder, file] = process.argv.slice(2);
const { KINDS } = await import(`${folder}/operators.mjs`);
const { Program, worst } = await import(`${folder}/program.mjs`);
const { hasFused } = await import(`${folder}/device.mjs`);
const device = { simd: true, fused: hasFused() ? [true, false] : [false], tiles: [[8, 1], [4, 2], [6, 2], [3, 3]] };

for (const { name, program: plain, values, expected } of JSON.parse(readFileSync(file))) {
  const floats = values.map((one) => one && Float32Array.from(one, (value) => value ?? -Infinity));
  const program = new Program(plain, floats);
  await program.serveScalar();
  const error = () => {
    program.poison();
    return worst(program.call([]), expected);
  };
  const scalar = error(), found = [];
  for (const [index, step] of program.steps.entries())
    for (const config of KINDS[step.kind].space(step, device)) {
      program.served = [...program.scalar];
      program.served[index] = await program.variant(step, config);
      found.push({ step: step.kind, config, error: error() });
    }
  const most = found.reduce((one, other) => (other.error > one.error ? other : one), { error: 0 });
  console.log(JSON.stringify({ name, scalar, tried: found.length, most }));
}
