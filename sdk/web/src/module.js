// The module with SIMD128 and the parts that most files need; others are files of their own, loaded where they are needed.
export const version = "VERSION";

const unpack = (text) => {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer();
};
const compile = async (text) => WebAssembly.compile(await unpack(text));
const withSimd = await FIRST;

export const simd = !globalThis.GBZ_SCALAR && WebAssembly.validate(withSimd);
const compiled = simd ? await WebAssembly.compile(withSimd) : await compile((await import("./gbz-scalar.mjs")).default);
// The decoder with all parts: this module leaves out those that many files do not need.
let all = simd ? undefined : compiled;
const allParts = () => all ??= import("./gbz-all.mjs").then((file) => compile(file.default)).catch((error) => {
  all = undefined;
  return refuse("failure", `gbz-all.mjs, which this file needs, cannot be loaded from beside gbz.mjs: ${error.message}`);
});
// SHA-256 as instructions: of Node.js; browsers have it only for code that waits.
const crypto = simd && globalThis.process?.versions?.node && await import(/* webpackIgnore: true */ "node:crypto");
