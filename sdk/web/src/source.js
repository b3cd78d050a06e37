// Files that come over the network: by range requests where the server answers them, else as one stream.

const FIRST = 1 << 16;  // bytes of the first request, which hold most headers
const GAP = 1 << 14;    // bytes between two parts that are fetched rather than asked for apart

/** What of [offset, end] parts is not among the parts that are there, neighbors united. */
function without(wanted, there) {
  const missing = [];
  for (const [from, to] of [...wanted].sort((a, b) => a[0] - b[0])) {
    let at = from;
    const add = (end) => {
      const last = missing.at(-1);
      if (last && at - last[1] <= GAP) last[1] = Math.max(last[1], end);
      else if (at < end) missing.push([at, end]);
    };
    for (const [begin, end] of there) {
      if (end <= at) continue;
      if (begin >= to) break;
      if (begin > at) add(begin);
      at = end;
    }
    if (at < to) add(to);
  }
  return missing;
}

function united(there, [from, to]) {
  const apart = there.filter(([begin, end]) => end < from || begin > to);
  const met = there.filter(([begin, end]) => end >= from && begin <= to);
  apart.push([Math.min(from, ...met.map(([begin]) => begin)), Math.max(to, ...met.map(([, end]) => end))]);
  return apart.sort((a, b) => a[0] - b[0]);
}

/** The state of a file that its server tells: another one means that the parts do not fit each other. */
const stamp = (response) => response.headers.get("etag") ?? response.headers.get("last-modified") ?? "";

async function request(url, options, from, to) {
  const headers = new Headers(options.fetch?.headers);
  if (to !== undefined) headers.set("range", `bytes=${from}-${to - 1}`);
  const response = await fetch(url, { ...options.fetch, headers, signal: options.signal }).catch((error) => {
    if (!(error instanceof TypeError)) throw error;
    return refuse("failure", `${url} cannot be loaded: ${error.cause?.message ?? error.message}`);
  });
  if (!response.ok && response.status !== 416)
    refuse("failure", `${url} was answered with status ${response.status} ${response.statusText}`.trim());
  return response;
}

/** Puts the bytes of a response where put() says. @return how many there were */
async function drain(response, most, put, progress) {
  let count = 0;
  const reader = response.body?.getReader();
  if (!reader) return 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return count;
      if (count + value.length > most) refuse("corrupt", "the server sends more bytes than the file declares");
      put(count, value);
      count += value.length;
      progress?.(count);
    }
  } catch (error) {
    if (error instanceof GbzError || error.name === "AbortError") throw error;
    throw new GbzError("truncated", `the download ended after ${count} bytes: ${error.message}; load it again`);
  } finally {
    reader.cancel().catch(() => {});
  }
}

class RangeSource {
  #stop = new AbortController();

  constructor(url, size, first, options) {
    Object.assign(this, { url, size, options, stamp: stamp(first), there: [] });
    this.asked = this.#stop.signal;
    options.signal?.addEventListener("abort", () => this.#stop.abort(options.signal.reason));
  }
  lacks(ranges) {
    return without(ranges, this.there);
  }
  async load(ranges, put) {
    for (const [from, to] of this.lacks(ranges)) {
      const response = await request(this.url, { ...this.options, signal: this.asked }, from, to);
      const place = response.headers.get("content-range") ?? `bytes ${from}-`;
      if (response.status !== 206 || !place.startsWith(`bytes ${from}-`) || stamp(response) !== this.stamp) {
        await response.body?.cancel();
        refuse("corrupt", `${this.url} changed on the server while it was read; open it again`);
      }
      const count = await drain(response, to - from, (at, bytes) => put(from + at, bytes));
      if (count < to - from) refuse("truncated", `${this.url} ended ${to - from - count} bytes too early; load it again`);
      this.there = united(this.there, [from, to]);
    }
  }
  close() {
    this.#stop.abort(new GbzError("usage", "the file is closed; open it again"));
  }
}

/** The memory of a file that comes as one stream; arrived() is called after each piece with the bytes that are there. */
async function download(response, options, arrived) {
  const decoder = new Decoder();
  let head = new Uint8Array(0), known, at = 0, there = 0;
  const coded = response.headers.has("content-encoding");
  const length = coded ? 0 : Number(response.headers.get("content-length"));
  const put = (offset, bytes) => {
    if (!known) {
      const joined = new Uint8Array(head.length + bytes.length);
      joined.set(head);
      joined.set(bytes, head.length);
      head = bytes = joined;
      offset = 0;
      known = prelude(head);
      if (!known && head.length < 32) return;
      known ??= { size: head.length, header: head.length };  // no file of this version: its open() says why
      if (length && length < known.size)
        refuse("truncated", `the file has ${known.size} bytes, the server sends ${length}; copy it to the server again`);
      at = decoder.allocate(known.size || 1);
    }
    if (offset + bytes.length > known.size) refuse("corrupt", "the file has bytes behind its end");
    decoder.bytes(at + offset, bytes.length).set(bytes);
    there = offset + bytes.length;
    arrived?.(decoder, at, known, there);
  };
  const size = await drain(response, Infinity, put, options.onProgress && ((count) => options.onProgress(count, known?.size)));
  if (!known) at = decoder.put(head);
  return { decoder, at, size: known ? there : head.length, received: size };
}

async function openUrl(url, options) {
  const first = await request(url, options, 0, options.ranges === false ? undefined : FIRST);
  if (first.status === 416) return openBytes(new Uint8Array(0), options);
  if (first.status !== 206) {
    const { decoder, at, size } = await download(first, options);
    decoder.open(at, size, false, options);
    return new GbzFile(decoder, at, size);
  }
  const head = new Uint8Array(FIRST);
  const count = await drain(first, FIRST, (at, bytes) => head.set(bytes, at));
  const total = Number(first.headers.get("content-range")?.split("/")[1]);
  const known = prelude(head.subarray(0, count));
  // No file of this version, or all of it.
  if (!known || known.size <= count) return openBytes(head.subarray(0, count), options);
  if (total < known.size)
    refuse("truncated", `${url} lacks ${known.size - total} bytes at its end; copy it to the server again`);
  if (total > known.size) refuse("corrupt", `${url} has bytes behind its end; copy it to the server again`);
  const decoder = new Decoder(), at = decoder.allocate(known.size), source = new RangeSource(url, known.size, first, options);
  decoder.bytes(at, count).set(head.subarray(0, count));
  source.there = [[0, count]];
  await source.load([[0, known.header]], (offset, bytes) => decoder.bytes(at + offset, bytes.length).set(bytes));
  decoder.open(at, known.size, true, options);
  return new GbzFile(decoder, at, known.size, source);
}

/** @param source  a URL, or the whole file as a Blob, an ArrayBuffer or a typed array */
export async function open(source, options = {}) {
  if (typeof source === "string" || source instanceof URL) return openUrl(String(source), options);
  if (globalThis.Blob && source instanceof Blob) return openBytes(await source.arrayBuffer(), options);
  return openBytes(source, options);
}

/** [name, values] of each tensor as soon as its bytes are there; the digest is compared at the end. */
export async function* stream(source, options = {}) {
  const response = source instanceof Response ? source : await request(String(source), options);
  if (!response.ok) refuse("failure", `the file was answered with status ${response.status}`);
  const ready = [];
  let waiting, wake = () => {}, failure, done = false;
  const arrived = (decoder, at, known, there) => {
    if (!waiting && there >= known.header) {
      decoder.open(at, known.size, true, options);
      waiting = decoder.tensors().filter((tensor) => !holdsModel(tensor)).map((tensor) => [Math.max(0, ...decoder.ranges(tensor.index).map(([, end]) => end)), tensor]);
      waiting.sort((a, b) => a[0] - b[0]);
    }
    while (waiting?.length && waiting[0][0] <= there) {
      const [, tensor] = waiting.shift();
      ready.push([tensor.name, decoder.read(tensor, dtypeFor(tensor, options.dtype))]);
    }
    wake();
  };
  download(response, options, arrived)
    .then(({ decoder, at, size }) => decoder.open(at, size, false, options))
    .catch((error) => { failure = error; })
    .finally(() => { done = true; wake(); });
  while (!done || ready.length > 0) {
    if (ready.length > 0) yield ready.shift();
    else await new Promise((resolve) => { wake = resolve; });
  }
  if (failure) throw failure;
}
