// The page: loads a task, tunes it, compares it, shows what happens, and sends the result to its server if it has one.

import { Cache } from "../jit/cache.mjs";
import { compare } from "../jit/compare.mjs";
import { probe } from "../jit/device.mjs";
import { openGpu, tuneGpu } from "../jit/gpu.mjs";
import { Program, worst } from "../jit/program.mjs";
import { tune } from "../jit/tune.mjs";
import { runtimeOf } from "./onnxruntime.mjs";
import { peerOf } from "./peer.mjs";

const element = (id) => document.getElementById(id);
const say = (text) => { element("state").textContent = text; };
const cell = (row, text, kind = "") => {
  const made = row.insertCell();
  made.textContent = text;
  made.className = kind;
};
const binary = async (path, make) => new make(await (await fetch(path)).arrayBuffer());
const send = (path, body) => fetch(path, { method: "POST", body });

/** Floats of the tensors of some roles, by their number. */
const dealt = (tensors, floats, roles) => {
  let at = 0;
  return tensors.map(({ role, elements }) => (roles.includes(role) ? floats.subarray(at, (at += elements)) : null));
};

const expectedOf = ({ tensors, outputs }, numbers) => {
  let at = 0;
  const next = (size) => numbers.subarray(at, (at += size));
  return outputs.map((tensor) => ({ truth: next(tensors[tensor].elements), allowed: next(tensors[tensor].elements) }));
};

const showStep = (row, done, all) => {
  element("progress").value = done / all;
  const line = element("steps").insertRow();
  const config = row.config ? Object.entries(row.config).map(([name, value]) => `${name}=${value}`).join(" ") : "scalar build";
  for (const text of [row.kind, config, row.cached ? "known" : `${row.tried} of ${row.space}`]) cell(line, text);
  for (const number of [row.scalar_us, row.us, row.scalar_us / row.us]) cell(line, number.toFixed(2), "number");
};

const showWhole = ({ medians, ratios }) => {
  for (const [name, us] of Object.entries(medians)) {
    const line = element("whole").insertRow();
    cell(line, name);
    cell(line, us.toFixed(2), "number");
  }
  element("ratios").textContent = Object.entries(ratios)
    .map(([name, ratio]) => `${ratio.toFixed(2)} times as fast as ${name === "scalar" ? "the scalar build" : name}`).join("; ");
};

const showGpu = ({ adapter, software, tried, wrong, best }) => {
  const kind = software ? "a software adapter, so not timed" : "WebGPU";
  const time = best && !software ? `, ${best.us.toFixed(1)} µs` : "";
  element("webgpu").textContent = `${adapter}, ${kind}: ${tried} tried, ${wrong.length} wrong, `
    + (best ? `one serves${time}` : "none is right");
};

const main = async () => {
  const flags = new URLSearchParams(location.search);
  const task = await (await fetch("task.json")).json(), { program: plain } = task;
  element("name").textContent = task.name;
  const values = dealt(plain.tensors, await binary("values.bin", Float32Array), ["input", "state", "constant"]);
  const expected = expectedOf(plain, await binary("expected.bin", Float64Array));
  const device = await probe();
  element("device").textContent = `${device.engine}; fused multiply and add: ${device.fused[0] ? "yes" : "no"}`;

  say("Tuning");
  const program = new Program(plain, values);
  await program.serveScalar();
  const scalar = worst(program.call([]), expected);
  if (!(scalar <= 1)) throw new Error(`the scalar build is off by ${scalar} times what is allowed`);
  const cache = flags.has("forget") ? null : await Cache.open();
  const tuned = await tune({ program, expected, device, budget_s: task.budget_s, cache, report: showStep });
  const error = worst(program.call([]), expected);

  say("Comparing");
  const inputs = plain.tensors.flatMap(({ role }, tensor) => (role === "input" ? [[tensor, values[tensor].slice()]] : []));
  const runtimes = [task.onnx ? await runtimeOf(plain, inputs) : null, await peerOf(task, inputs)].filter(Boolean);
  const compared = await compare({ program, inputs, runtimes, expected });
  showWhole(compared);

  say("Tuning on WebGPU");
  const named = (floats) => Object.fromEntries(plain.tensors.flatMap(({ name }, tensor) => (floats[tensor] ? [[name, floats[tensor]]] : [])));
  const gpu = task.shaders.length ? await openGpu() : null;
  const onGpu = gpu && (await tuneGpu({ gpu, shaders: task.shaders, values: named(values), expected, budget_s: task.budget_s }));
  if (onGpu) showGpu(onGpu.report);

  say("Answering on fresh inputs");
  const answer = async (index, call) => {
    const fresh = dealt(plain.tensors, await binary(`fresh/${index}`, Float32Array), ["input"]);
    await send(`outputs/${index}`, new Blob(await call(fresh)));
  };
  for (let index = 0; index < task.fresh; index++) {
    await answer(index, (fresh) => {
      program.poison();
      return program.call(fresh.flatMap((floats, tensor) => (floats ? [[tensor, floats]] : [])));
    });
    if (onGpu?.shader) await answer(task.fresh + index, (fresh) => {
      onGpu.shader.fill(named(fresh));
      return onGpu.shader.answers();
    });
  }
  say(`Done in ${tuned.seconds.toFixed(1)} s; error ${error.toFixed(3)} of what is allowed`);
  return { ok: error <= 1, error, device, ...tuned, ...compared, webgpu: onGpu?.report ?? null };
};

const served = location.protocol.startsWith("http") && document.location.hostname === "127.0.0.1";
try {
  const result = await main();
  window.kernelwright = result;
  if (served) await send("result", JSON.stringify(result));
} catch (error) {
  say(`Failed: ${error.message}`);
  if (served) await send("result", JSON.stringify({ ok: false, message: `${error.message}`, stack: error.stack }));
}
