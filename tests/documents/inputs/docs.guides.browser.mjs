// The page's module in Node.js, which has no address of its own: relative URLs are those of a server of this folder.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";

const requests = [];
const server = createServer((request, response) => {
  requests.push(request.url);
  response.end(readFileSync("." + request.url));
}).listen(0, "127.0.0.1");
await once(server, "listening");
const request = globalThis.fetch;
globalThis.fetch = (url, options) => request(new URL(url, `http://127.0.0.1:${server.address().port}/`), options);

BLOCK

const wanted = readFileSync("embed.weight");
if (!(weights instanceof Float32Array) || Buffer.compare(Buffer.from(weights.buffer, weights.byteOffset, weights.byteLength), wanted) !== 0)
  throw new Error("the weights are not those that were saved");
if (requests.join() !== "/models/embedder.gbz") throw new Error(`requests: ${requests}`);
process.exit(0);
