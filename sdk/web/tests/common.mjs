// Where the module and the golden files are, and digests.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

export const ROOT = path.resolve(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "../../..");
export const GOLDEN = path.join(ROOT, "tests/golden");
export const WEB = path.resolve(process.env.GBC_WEB ?? path.join(ROOT, "build/web"));
/** GBC_MODULE: another form of the module. */
export const MODULE = process.env.GBC_MODULE ?? "gbz.mjs";
export const load = (name) => import(pathToFileURL(path.join(WEB, MODULE)).href + (name ? `?${name}` : ""));

export const read = (...names) => new Uint8Array(readFileSync(path.join(...names)));
export const json = (...names) => JSON.parse(readFileSync(path.join(...names), "utf8"));
export const golden = (name) => read(GOLDEN, `v2/${name}.gbz`);
export const sha256 = (values) =>
  createHash("sha256").update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength)).digest("hex");
export const digests = (tensors) => Object.fromEntries(Array.from(tensors, ([name, values]) => [name, sha256(values)]));
/** The status that a call fails with, "ok" where it does not. */
export async function verdict(call) {
  try {
    await call();
    return "ok";
  } catch (error) {
    if (error.name !== "GbzError") throw error;
    return error.status;
  }
}
/** Tensors of half a terabyte and more: a 32-bit decoder refuses the size before it looks at the bytes. The section of original
    files is not opened: no tensor needs it. */
export const OTHER_VERDICTS = { originals_no_zstd: "ok", planes_of_a_terabyte: "memory", section_zstd_bomb: "memory" };
/** Tensors of a safetensors file: {name, dtype, shape, data}. */
export function safetensors(bytes) {
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
  return Object.entries(header).filter(([name]) => name !== "__metadata__").map(([name, { dtype, shape, data_offsets: [from, to] }]) =>
    ({ name, dtype, shape, data: bytes.slice(8 + size + from, 8 + size + to) }));
}
/** The exports of every decoder that body() makes. @param before  what is done to each of them first */
export async function decoders(body, before = () => {}) {
  const made = [], { Instance } = WebAssembly;
  WebAssembly.Instance = function (...words) {
    const instance = new Instance(...words);
    made.push(instance.exports);
    before(instance.exports);
    return instance;
  };
  try {
    await body(made);
  } finally {
    WebAssembly.Instance = Instance;
  }
}
