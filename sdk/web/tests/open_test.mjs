// open() and stream() over HTTP: ranges, one stream, workers, and servers that fail.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { OTHER_VERDICTS, GOLDEN, digests, golden, json, load, read, sha256, verdict } from "./common.mjs";
import { serve } from "./server.mjs";

const gbz = await load();
const expected = json(GOLDEN, "v2/digests.json");
// Made by make_large.py: a model of 25 MB, and one of ONNX.
const LARGE = process.env.GBC_LARGE && read(process.env.GBC_LARGE, "large.gbz");
const without = LARGE ? false : "GBC_LARGE is not set: sdk/web/tests/make_large.py makes the large model";

async function served(bytes, behave, body) {
  const server = await serve(bytes, behave);
  try {
    return await body(server);
  } finally {
    await server.close();
  }
}

for (const behave of [{}, { ranges: false }, { ranges: false, piece: 37, chunked: true }])
  test(`files come over HTTP: ${JSON.stringify(behave)}`, async () => {
    for (const name of Object.keys(expected))
      await served(golden(name), behave, async ({ url }) => {
        const file = await gbz.open(url);
        assert.deepEqual(digests(await file.readAll()), expected[name], name);
        assert.match(file.identity, /^[0-9a-f]{64}$/);
        file.close();
      });
  });

test("damaged files have the same verdict over HTTP", async () => {
  for (const [name, code] of Object.entries(json(GOLDEN, "errors/codes.json")))
    for (const behave of [{}, { ranges: false }, { ranges: false, piece: 100 }])
      await served(read(GOLDEN, `errors/${name}.gbz`), behave, async ({ url }) => {
        const found = await verdict(async () => (await gbz.open(url)).readAll({ workers: 1 }));
        assert.equal(found, OTHER_VERDICTS[name] ?? code, `${name}, ${JSON.stringify(behave)}`);
      });
});

test("tensors come as their bytes arrive", async () => {
  for (const name of Object.keys(expected))
    await served(golden(name), { ranges: false, piece: 41 }, async ({ url }) => {
      const tensors = [];
      for await (const tensor of gbz.stream(url)) tensors.push(tensor);
      assert.deepEqual(digests(tensors), expected[name], name);
    });
});

test("a stream that is damaged is an error at its end at the latest", async () => {
  const bytes = golden("exact_lanes").slice();
  bytes[bytes.length - 40] ^= 1;
  await served(bytes, {}, async ({ url }) => {
    await assert.rejects(async () => { for await (const _ of gbz.stream(url)); }, { name: "GbzError" });
  });
});

/** A response that comes in pieces when they are requested. */
function response(bytes, piece) {
  const state = { given: 0, ended: false };
  const body = new ReadableStream({
    pull(controller) {
      if (state.given >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(state.given, state.given + piece));
      state.given += piece;
    },
    cancel() { state.ended = true; },
  }, { highWaterMark: 0 });
  return [new Response(body), state];
}

test("what is no file of this version is told by its first bytes", async () => {
  const newer = golden("exact_lanes");
  newer[3] = "3".charCodeAt(0);
  const page = new TextEncoder().encode(`<!doctype html><title>Not found</title>${"<p>No such page.</p>".repeat(20)}`);
  for (const piece of [40, 100, 10000])
    for (const [bytes, status] of [[newer, "unsupported"], [page, "corrupt"]]) {
      const right = (error) => error.status === status && !/behind its end/.test(error.message);
      const [streamed, state] = response(bytes, piece);
      await assert.rejects(async () => { for await (const _ of gbz.stream(streamed)); }, right, `${piece} ${status}`);
      if (piece < bytes.length) assert.equal(state.ended, true);
      await served(bytes, { ranges: false, chunked: true, piece, pause: 2 }, async ({ url }) => assert.rejects(gbz.open(url), right));
      await served(bytes, {}, async ({ url }) => assert.rejects(gbz.open(url), right));
    }
});

test("a stream waits for its caller, and ends where the loop is left", async () => {
  const bytes = golden("exact_lanes"), [streamed, state] = response(bytes, 41);
  for await (const [name] of gbz.stream(streamed)) {
    assert.ok(name in expected.exact_lanes);
    const { given } = state;
    await new Promise((resolve) => setTimeout(resolve, 30));
    assert.equal(state.given, given);
    assert.ok(given < bytes.length);
    break;
  }
  assert.equal(state.ended, true);
});

test("a signal's reason is what the call rejects with", async () => {
  const reason = new Error("the page is left");
  for (const ranges of [true, false])
    await served(golden("exact_lanes"), { ranges, stall: 300 }, async ({ url }) => {
      await assert.rejects(gbz.open(url, { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
      const control = new AbortController();
      setTimeout(() => control.abort(reason), 100);
      await assert.rejects(gbz.open(url, { signal: control.signal }), reason);
    });
});

test("only files of one ONNX model say that they hold one", async () => {
  for (const [name, holds] of [["onnx", true], ["external", false], ["gguf", false]]) {
    const bytes = read(GOLDEN, `containers/${name}.gbz`);
    assert.equal((await gbz.open(bytes)).hasModel, holds, name);
    await served(bytes, {}, async ({ url }) => assert.equal((await gbz.open(url)).hasModel, holds, name));
    if (!holds) assert.ok(["usage", "unsupported"].includes(await verdict(() => gbz.decodeOnnx(bytes))));
  }
});

test("a download that ends early is truncated", async () => {
  const bytes = golden("exact_lanes");
  for (const behave of [{ ranges: false, hangUp: 300 }, { ranges: false, short: 300, chunked: true }, { hangUp: 300 },
    { short: 300, chunked: true }])
    await served(bytes, behave, async ({ url }) => {
      const found = await verdict(async () => (await gbz.open(url)).readAll());
      assert.equal(found, "truncated", JSON.stringify(behave));
    });
  await served(bytes.subarray(0, 500), {}, async ({ url }) => assert.equal(await verdict(() => gbz.open(url)), "truncated"));
});

test("a server's refusal is told with its status", async () => {
  await served(golden("tiny"), { status: 404 }, async ({ url }) =>
    assert.rejects(gbz.open(url), (error) => error.status === "failure" && error.message.includes("404")));
});

test("a Blob and a URL object are opened too", async () => {
  for (const source of [new Blob([golden("tiny")]), golden("tiny").buffer]) {
    const file = await gbz.open(source);
    assert.deepEqual(digests(await file.readAll()), expected.tiny);
  }
  await served(golden("tiny"), {}, async ({ url }) => assert.equal((await gbz.open(new URL(url))).tensors.size, 2));
});

test("one tensor of a large file is a part of it", { skip: without }, async () => {
  await served(LARGE, {}, async ({ url, requests, behave }) => {
    const file = await gbz.open(url), name = [...file.tensors.keys()][1];
    assert.equal(file.identity, "");
    await file.read(name);
    const loaded = requests.reduce((sum, [from, to]) => sum + to - from, 0);
    assert.ok(loaded < LARGE.length / 2, `${loaded} of ${LARGE.length} bytes were requested`);
    const count = requests.length;
    await Promise.all([file.read(name), file.read(name)]);
    assert.equal(requests.length, count, "what is there is not requested again");
    behave.etag = '"2"';
    await assert.rejects(file.readAll(), (error) => error.status === "corrupt" && /changed on the server/.test(error.message));
    behave.etag = '"1"';
    behave.short = 1000;
    behave.chunked = true;
    assert.equal(await verdict(() => file.readAll()), "truncated");
    behave.short = 0;
    assert.equal((await file.readAll({ workers: 1 })).size, file.tensors.size);
    assert.match(file.identity, /^[0-9a-f]{64}$/);
  });
});

test("closing a file ends its requests", { skip: without }, async () => {
  await served(LARGE, {}, async ({ url, behave }) => {
    const file = await gbz.open(url);
    behave.piece = 1000;
    const reading = file.readAll();
    setTimeout(() => file.close(), 20);
    await assert.rejects(reading, (error) => error.status === "usage" && /closed/.test(error.message));
  });
});

test("the large model is that of `expand`, with workers and without", { skip: without }, async () => {
  const names = JSON.parse(readFileSync(`${process.env.GBC_LARGE}/large.json`, "utf8"));
  const file = await gbz.open(LARGE);
  for (const workers of [1, 3]) {
    const before = performance.now(), tensors = await file.readAll({ workers });
    console.log(`${workers} workers: ${Math.round(performance.now() - before)} ms`);
    assert.deepEqual(digests(tensors), names);
  }
  assert.deepEqual(digests(await gbz.decode(LARGE)), names);
});

test("an ONNX model comes back, from memory and over HTTP", { skip: without }, async () => {
  const bytes = read(process.env.GBC_LARGE, "model.onnx.gbz"), model = sha256(read(process.env.GBC_LARGE, "expanded.onnx"));
  assert.equal(sha256(await gbz.decodeOnnx(bytes)), model);
  await served(bytes, {}, async ({ url }) => {
    const file = await gbz.open(url);
    assert.equal(file.hasModel, true);
    assert.equal(sha256(await file.onnx()), model);
  });
});

test("an ONNX model comes without its large weights, and these beside it", { skip: without }, async () => {
  const bytes = read(process.env.GBC_LARGE, "model.onnx.gbz"), file = await gbz.open(bytes), whole = await file.onnx();
  for (const { model, externalData } of [await file.onnxParts(), await file.onnxParts(), await gbz.decodeOnnxParts(bytes)]) {
    assert.deepEqual(externalData.map(({ path, data }) => [path, sha256(data)]), [["gbcompress-0", sha256(await file.read("w"))]]);
    assert.ok(model.length < 300 && Buffer.from(model).includes("gbcompress-0"), `${model.length} bytes`);
    assert.equal(sha256(await file.onnx()), sha256(whole));
  }
});
