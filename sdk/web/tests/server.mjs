// A server of one file over HTTP, whose faults the tests choose.
import { createServer } from "node:http";

/** @return {url, requests, close}; `behave` may be changed between requests */
export async function serve(bytes, behave = {}) {
  const requests = [];
  const server = createServer((request, response) => {
    const range = behave.ranges === false ? undefined : /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "");
    requests.push(range ? [Number(range[1]), Number(range[2]) + 1] : "all");
    if (behave.status) return response.writeHead(behave.status).end();
    const total = bytes.length, from = range ? Number(range[1]) : 0;
    if (range && from >= total) return response.writeHead(416).end();
    let body = bytes.subarray(from, range ? Number(range[2]) + 1 : total);
    const headers = { etag: behave.etag ?? '"1"', "content-length": body.length, "access-control-allow-origin": "*" };
    if (range) headers["content-range"] = `bytes ${from}-${from + body.length - 1}/${total}`;
    if (behave.chunked) delete headers["content-length"];
    if (behave.short && from >= (behave.shortFrom ?? 0)) body = body.subarray(0, behave.short);
    response.writeHead(range ? 206 : 200, headers);
    if (behave.hangUp) return response.write(body.subarray(0, behave.hangUp), () => response.destroy());
    if (behave.stall) return response.write(body.subarray(0, behave.stall));
    if (!behave.piece) return response.end(body);
    const write = (at) => {
      if (at >= body.length) return response.end();
      response.write(body.subarray(at, at + behave.piece));
      return behave.pause ? setTimeout(write, behave.pause, at + behave.piece) : write(at + behave.piece);
    };
    write(0);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}/model.gbz`, requests, behave,
    close: () => (server.closeAllConnections(), new Promise((resolve) => server.close(resolve))) };
}
