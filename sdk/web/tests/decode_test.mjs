// decode(), decodeOnnx() and the limits of memory, in both modules: with SIMD128 and without.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { copyFileSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { brotliCompressSync } from "node:zlib";
import { OTHER_VERDICTS, GOLDEN, WEB, decoders, digests, golden, json, load, read, safetensors, verdict } from "./common.mjs";

const withSimd = await load();
globalThis.GBZ_SCALAR = true;
const scalar = await load("scalar");
delete globalThis.GBZ_SCALAR;

test("this machine's Node.js runs both modules", () => {
  assert.equal(withSimd.simd, true);
  assert.equal(scalar.simd, false);
  assert.match(withSimd.version, /^\d+\.\d+\.\d+$/);
});

for (const [kind, gbz] of Object.entries({ simd: withSimd, scalar })) {
  test(`every tensor has its recorded digest: ${kind}`, async () => {
    const files = json(GOLDEN, "v2/digests.json");
    assert.ok(Object.keys(files).length >= 20);
    for (const [name, expected] of Object.entries(files))
      assert.deepEqual(digests(await gbz.decode(golden(name))), expected, name);
  });

  test(`every damaged file has its recorded verdict: ${kind}`, async () => {
    const codes = json(GOLDEN, "errors/codes.json");
    assert.ok(Object.keys(codes).length >= 80);
    for (const [name, code] of Object.entries(codes)) {
      const bytes = read(GOLDEN, `errors/${name}.gbz`);
      assert.equal(await verdict(() => gbz.decode(bytes)), OTHER_VERDICTS[name] ?? code, name);
    }
  });
}

test("a typed array of the tensor's type holds its values", async () => {
  const tensors = await withSimd.decode(golden("exact_lanes"));
  const file = Object.fromEntries(Array.from(tensors, ([name, values]) => [name, values.constructor.name]));
  assert.ok(Object.values(file).includes("Float32Array"), JSON.stringify(file));
  for (const values of tensors.values()) assert.equal(values.byteOffset, 0);
});

test("real tensors are read as float32, rounded", async () => {
  const own = await withSimd.decode(golden("coded_lanes")), short = await withSimd.decode(golden("coded_lanes"), { dtype: "BF16" });
  for (const [name, values] of own)
    if (values instanceof Float32Array) {
      assert.equal(short.get(name).length, values.length);
      assert.ok(short.get(name) instanceof Uint16Array);
    }
});

test("a changed bit anywhere is an error with a sentence", async () => {
  const bytes = golden("coded_lanes");
  for (let at = 0; at < bytes.length; at += 7) {
    const changed = bytes.slice();
    changed[at] ^= 1 << at % 8;
    await assert.rejects(withSimd.decode(changed), (error) => error.name === "GbzError" && error.message.length > 10, `byte ${at}`);
  }
});

test("what is no file is refused", async () => {
  assert.equal(await verdict(() => withSimd.decode(new Uint8Array(0))), "truncated");
  assert.equal(await verdict(() => withSimd.decode(new TextEncoder().encode("not a file"))), "corrupt");
  assert.equal(await verdict(() => withSimd.decode("text")), "usage");
  assert.equal(await verdict(() => withSimd.decodeOnnx(golden("tiny"))), "usage");
  assert.equal(await verdict(() => withSimd.decodeOnnxParts(golden("tiny"))), "usage");
  assert.equal(await verdict(() => withSimd.decode(golden("tiny"), { dtype: "F31" })), "usage");
});

test("limits hold before memory is taken", async () => {
  assert.equal(await verdict(() => withSimd.decode(golden("tiny"), { outputBytes: 1 })), "limit");
  assert.equal(await verdict(() => withSimd.decode(golden("coded_lanes"), { memoryBytes: 1000 })), "memory");
});

/** A file of a layer type that this decoder lacks. */
function ofPlugin() {
  const bytes = golden("deep_fp32"), at = Buffer.from(bytes).indexOf("attention");
  assert.ok(at > 0);
  bytes.set(Buffer.from("circulant"), at);
  bytes.set(createHash("sha256").update(bytes.subarray(0, -16)).digest().subarray(0, 16), bytes.length - 16);
  return bytes;
}

test("a plugin's layer type is named, and the file stays open", async () => {
  await assert.rejects(withSimd.decode(ofPlugin()), (error) => error.status === "unsupported" && error.message.includes("circulant"));
  const file = await withSimd.open(ofPlugin());
  const [name] = file.tensors.keys();
  for (let i = 0; i < 2; ++i) assert.equal(await verdict(() => file.read(name)), "unsupported");
});

test("a delta needs its base, and gets the model back with it", async () => {
  const bytes = read(GOLDEN, "deltas/delta.gbz"), base = safetensors(read(GOLDEN, "deltas/base.safetensors"));
  await assert.rejects(withSimd.decode(bytes), (error) => error.status === "usage" && /setBase\(\)/.test(error.message));
  const file = await withSimd.open(bytes);
  assert.match(file.baseDigests[0], /^[0-9a-f]{64}$/);
  assert.equal(await verdict(() => file.setBase(base.slice(1))), "usage");
  await file.setBase(base);
  const expected = Object.fromEntries(safetensors(read(GOLDEN, "deltas/now.safetensors")).map(({ name, data }) => [name, data]));
  assert.deepEqual(digests(await file.readAll()), digests(Object.entries(expected)));
});

test("a file with layers gives the exact values, or its draft's", async () => {
  const bytes = read(GOLDEN, "deltas/layers.gbz");
  const expected = digests(safetensors(read(GOLDEN, "deltas/now.safetensors")).map(({ name, data }) => [name, data]));
  const file = await withSimd.open(bytes), draft = await withSimd.open(bytes, { draft: true });
  assert.equal(file.layer, "exact");
  assert.equal(draft.layer, "draft");
  assert.equal((await withSimd.open(golden("tiny"))).layer, undefined);
  assert.deepEqual(digests(await file.readAll()), expected);
  assert.notDeepEqual(digests(await draft.readAll()), expected);
  assert.equal(await verdict(() => withSimd.decode(bytes.slice(0, -1))), "truncated");
});

test("every tensor says how it is stored", async () => {
  const kinds = new Set();
  for (const bytes of [...Object.keys(json(GOLDEN, "v2/digests.json")).map(golden), read(GOLDEN, "deltas/delta.gbz")])
    for (const { name, kind } of (await withSimd.open(bytes)).tensors.values()) {
      assert.equal(typeof kind, "string", name);
      kinds.add(kind);
    }
  for (const kind of ["generated", "exact", "tied", "quantized", "predicted", "constant", "base", "change"])
    assert.ok(kinds.has(kind), `${kind} is not among ${[...kinds]}`);
});

test("calls that fail leave no memory behind", async () => {
  const delta = read(GOLDEN, "deltas/delta.gbz"), base = safetensors(read(GOLDEN, "deltas/base.safetensors"));
  await decoders(async (made) => {
    const plugin = await withSimd.open(ofPlugin()), changed = await withSimd.open(delta);
    await changed.setBase(base);
    const [name] = plugin.tensors.keys();
    const fail = async () => {
      assert.equal(await verdict(() => plugin.read(name)), "unsupported");
      assert.equal(await verdict(() => changed.setBase(base.slice(1))), "usage");
      assert.equal(await verdict(() => changed.setBase([{ ...base[0], data: undefined }])), "usage");
    };
    await fail();
    const sizes = () => made.map(({ memory }) => memory.buffer.byteLength);
    const before = sizes();
    for (let i = 0; i < 500; ++i) await fail();
    assert.deepEqual(sizes(), before);
  });
});

test("no memory is given twice, and what is free is used again", async () => {
  await decoders(async (made) => {
    await withSimd.open(golden("coded_lanes"));
    const [{ malloc, free, memory }] = made, taken = [];
    const give = ([at, size, byte]) => {
      assert.ok(new Uint8Array(memory.buffer, at, size).every((found) => found === byte));
      free(at);
    };
    const round = () => {
      let seed = 1;
      const random = (most) => (seed = (seed * 48271) % 2147483647) % most;
      for (let i = 0; i < 5000; ++i) {
        if (random(5) < 2 && taken.length) {
          give(taken.splice(random(taken.length), 1)[0]);
          continue;
        }
        const size = random(random(8) ? 300 : 200_000), at = malloc(size) >>> 0, byte = i & 255;
        assert.ok(at && at % 16 === 0);
        new Uint8Array(memory.buffer, at, size).fill(byte);
        taken.push([at, size, byte]);
      }
      taken.splice(0).forEach(give);
    };
    round();
    const before = memory.buffer.byteLength;
    for (let i = 0; i < 4; ++i) round();
    assert.equal(memory.buffer.byteLength, before);
  });
});

test("memory above 2 GiB is addressed", async () => {
  await decoders(async () => {
    const bytes = golden("exact_lanes");
    assert.deepEqual(digests(await withSimd.decode(bytes)), json(GOLDEN, "v2/digests.json").exact_lanes);
    const file = await withSimd.open(ofPlugin());
    assert.match(file.identity, /^[0-9a-f]{64}$/);
    await assert.rejects(file.read([...file.tensors.keys()][0]), (error) => error.message.includes("circulant"));
  }, ({ malloc }) => assert.ok(malloc(2 ** 30) && malloc(2 ** 30)));
});

test("memory that is not there for a decoder is an error with a status", async () => {
  const before = () => { throw new RangeError("Out of memory: Cannot allocate Wasm memory for new instance"); };
  await decoders(async () => assert.equal(await verdict(() => withSimd.decode(golden("tiny"))), "memory"), before);
});

test("a file that is closed, or whose decoding failed, is used no more", async () => {
  const file = await withSimd.open(golden("tiny")), name = [...file.tensors.keys()][0];
  const before = await file.read(name);
  file.close();
  file.close();
  for (const call of [() => file.read(name), () => file.readAll(), () => file.onnx(), () => file.setBase([])])
    await assert.rejects(async () => call(), (error) => error.status === "usage" && /closed/.test(error.message));
  assert.ok(before.length > 0);
  assert.equal(await verdict(async () => (await withSimd.open(golden("tiny"))).read("none")), "usage");
});

test("memory stays bounded over many good and damaged files", async () => {
  const good = golden("coded_lanes"), bad = read(GOLDEN, "errors/stream_cut.gbz"), huge = read(GOLDEN, "errors/planes_of_a_terabyte.gbz");
  const run = async (times) => {
    for (let i = 0; i < times; ++i) {
      await withSimd.decode(good);
      for (const bytes of [bad, huge]) assert.notEqual(await verdict(() => withSimd.decode(bytes)), "ok");
      if (i % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await run(100);
  const before = process.memoryUsage().rss;
  await run(400);
  const growth = process.memoryUsage().rss - before;
  assert.ok(growth < 200e6, `1200 files took ${growth} bytes`);
});

/** The sources of the modules that body() compiles. */
async function compilations(body) {
  const { compile } = WebAssembly, made = [];
  WebAssembly.compile = (bytes) => {
    made.push(bytes.byteLength);
    return compile(bytes);
  };
  try {
    await body(made);
  } finally {
    WebAssembly.compile = compile;
  }
}

test("files of quantized weights need the first module alone", async () => {
  await compilations(async (made) => {
    const gbz = await load("compilations");
    assert.equal(made.length, 1);
    for (const name of ["coded_lanes", "cosines_lanes", "exact_lanes", "whole_lanes"]) await gbz.decode(golden(name));
    assert.equal(made.length, 1);
  });
});

test("other files need the second module, which is loaded once", async () => {
  const others = ["coded_small", "deep_fp32", "tiny", "planes_rows", "levels_lanes", "known_arch"].map(golden);
  for (const [i, bytes] of [...others, read(GOLDEN, "deltas/delta.gbz"), read(GOLDEN, "deltas/layers.gbz")].entries())
    await compilations(async (made) => {
      const gbz = await load(`other${i}`);
      await gbz.open(bytes);
      await verdict(() => gbz.decode(bytes));
      assert.equal(made.length, 2, `file ${i}`);
      assert.ok(made[1] > made[0]);
    });
});

test("errors have the sentences of the module that has all parts", async () => {
  const sentence = (gbz, bytes, options) => gbz.decode(bytes, options).then(() => "", ({ message }) => message);
  const files = Object.keys(json(GOLDEN, "errors/codes.json")).map((name) => [read(GOLDEN, `errors/${name}.gbz`)]);
  const cut = golden("coded_lanes").subarray(0, 300);
  for (const words of [...files, [cut], [golden("tiny"), { outputBytes: 1 }], [golden("coded_lanes"), { dtype: "F31" }]])
    assert.equal(await sentence(withSimd, ...words), await sentence(scalar, ...words));
});

test("a module without its file of WebAssembly names what is missing", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "gbz-"));
  try {
    copyFileSync(path.join(WEB, "gbz-wasm.mjs"), path.join(folder, "gbz-wasm.mjs"));
    await assert.rejects(import(pathToFileURL(path.join(folder, "gbz-wasm.mjs")).href), /gbz\.wasm/);
    copyFileSync(path.join(WEB, "gbz.wasm"), path.join(folder, "gbz.wasm"));
    const { decode } = await import(pathToFileURL(path.join(folder, "gbz-wasm.mjs")).href + "?again");
    assert.deepEqual(digests(await decode(golden("coded_lanes"))), digests(await withSimd.decode(golden("coded_lanes"))));
    await assert.rejects(decode(golden("tiny")), { status: "failure", message: /gbz-all\.mjs/ });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the module is small", () => {
  const sizes = (...names) => [names.reduce((sum, name) => sum + statSync(`${WEB}/${name}`).size, 0),
    names.reduce((sum, name) => sum + brotliCompressSync(read(WEB, name)).length, 0)];
  for (const [names, most, packed] of [[["gbz.mjs"], 80_000, 45_000], [["gbz-wasm.mjs"], 29_000, 8_500],
    [["gbz-wasm.mjs", "gbz.wasm"], 105_000, 42_000]]) {
    const found = sizes(...names);
    console.log(`${names.join(" and ")}: ${found[0]} bytes, ${found[1]} with brotli`);
    assert.ok(found[0] <= most && found[1] <= packed, `${names}: ${found}, at most ${most} bytes, ${packed} with brotli`);
  }
});
