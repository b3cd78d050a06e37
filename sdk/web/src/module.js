// The module with SIMD128; the one without is loaded from a file of its own where it is needed.
export const version = "VERSION";

const unpack = (text) => {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer();
};
const withSimd = await unpack("BASE64");

export const simd = !globalThis.GBZ_SCALAR && WebAssembly.validate(withSimd);
const compiled = await WebAssembly.compile(simd ? withSimd : await unpack((await import("./gbz-scalar.mjs")).default));
// SHA-256 as instructions: of Node.js; browsers have it only for code that waits.
const crypto = simd && globalThis.process?.versions?.node && await import(/* webpackIgnore: true */ "node:crypto");
