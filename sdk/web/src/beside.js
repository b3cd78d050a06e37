/** The bytes of a file that lies beside this module. */
const beside = async (url) => {
  if (url.protocol === "file:") return (await import(/* webpackIgnore: true */ "node:fs/promises")).readFile(url);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}, which gbz-wasm.mjs needs, was answered with status ${response.status}; serve it from beside gbz-wasm.mjs`);
  return response.arrayBuffer();
};
