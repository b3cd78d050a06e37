// The rate of decode() in Node.js: `node rate.mjs FILE.gbz [TIMES]`, after GBC_WEB=FOLDER of gbz.mjs. Prints the least of TIMES
// (default 9) in processor time, which other programs on the machine hardly change: all of it, and opening alone.
import { performance } from "node:perf_hooks";
import { load, read } from "./common.mjs";

const [file, times = 9] = process.argv.slice(2);
const gbz = await load(), bytes = read(file);
const spent = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e3;
};

const least = { decode: Infinity, open: Infinity, clock: Infinity };
let weights = 0;
for (let run = 0; run < Number(times); ++run) {
  let before = spent();
  const begin = performance.now(), tensors = await gbz.decode(bytes);
  least.clock = Math.min(least.clock, performance.now() - begin);
  least.decode = Math.min(least.decode, spent() - before);
  weights = 0;
  for (const values of tensors.values()) weights += values.length;
  before = spent();
  (await gbz.open(bytes)).close();
  least.open = Math.min(least.open, spent() - before);
}
console.log(JSON.stringify({ simd: gbz.simd, weights, decode_ms: least.decode, open_ms: least.open, clock_ms: least.clock }));
