// A page that opens .gbz files: tensors, histograms, downloads. Served from its folder, it asks nothing of other servers.
import { open } from "./gbz.mjs";
import { histogram, safetensors } from "./tensors.js";

const at = (id) => document.getElementById(id);
const BINS = 64;
const size = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = (number) => (number === 0 ? "0" : Number(number.toPrecision(4)).toString());
let file, title = "model";

const say = (text) => (at("status").textContent = text);

/** Runs what may fail; the page shows the sentence. */
async function attempt(doing, body) {
  at("error").textContent = "";
  say(doing);
  document.body.setAttribute("aria-busy", "true");
  try {
    await body();
  } catch (error) {
    say("");
    at("error").textContent = error.message;
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function showFacts() {
  const tensors = [...file.tensors.values()], bytes = tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
  const facts = {
    File: `${size.format(file.size)} bytes`,
    Expanded: `${size.format(bytes)} bytes, ${(bytes / file.size).toFixed(1)}x larger`,
    Tensors: size.format(tensors.length),
    Architecture: file.architecture,
    "SHA-256": file.identity || "not compared: the file is loaded in parts",
    Base: file.baseDigest && `a delta; its base has the digest ${file.baseDigest}`,
  };
  at("facts").replaceChildren(...Object.entries(facts).filter(([, text]) => text)
    .flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
}

function row(tensor) {
  const line = element("tr"), values = tensor.shape.reduce((product, side) => product * side, 1);
  const name = element("th", undefined, { scope: "row" }), button = element("button", tensor.name, { type: "button", "aria-pressed": "false" });
  button.addEventListener("click", () => attempt(`Decoding ${tensor.name} …`, () => showTensor(tensor, line)));
  name.append(button);
  const bits = values ? (tensor.bits / values).toFixed(2) : "–";
  line.append(name, element("td", tensor.dtype), element("td", tensor.shape.join(" × ") || "scalar"), element("td", tensor.kind),
    element("td", size.format(tensor.bytes), { class: "number" }), element("td", bits, { class: "number" }));
  return line;
}

async function showTensor(tensor, line) {
  const real = ["F16", "BF16", "F32", "F64"].includes(tensor.dtype);
  const values = await file.read(tensor.name, real ? { dtype: "F32" } : {});
  const drawn = real || /^[IU]|BOOL/.test(tensor.dtype);
  for (const other of at("rows").children) {
    other.classList.toggle("chosen", other === line);
    other.querySelector("button").setAttribute("aria-pressed", String(other === line));
  }
  say("");
  if (!drawn || values.length === 0) {
    at("histogram").replaceChildren();
    at("caption").textContent = `${tensor.name}: no histogram of type ${tensor.dtype} with ${values.length} bytes`;
    return;
  }
  const found = histogram(values, BINS), most = Math.max(...found.bins), width = 640 / BINS;
  at("histogram").replaceChildren(...found.bins.map((count, i) => {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect"), height = (190 * count) / most;
    for (const [name, value] of Object.entries({ x: i * width + 0.5, y: 200 - height, width: width - 1, height })) bar.setAttribute(name, value);
    return bar;
  }));
  at('caption').textContent = found.finite === 0 ?
      `${tensor.name}: ${size.format(values.length)} values, none of them finite` :
      `${tensor.name}: ${size.format(values.length)} values from ${short(found.least)} to ${
          short(found.most)}, ` +
          `mean ${short(found.mean)}, standard deviation ${short(found.deviation)}, ${
              ((100 * found.zeros) / values.length).toFixed(1)} % zeros`;
}

function show(opened, name) {
  file?.close();
  file = opened;
  title = name.replace(/\.gbz$/, "") || "model";
  showFacts();
  at("rows").replaceChildren(...[...file.tensors.values()].map(row));
  at("histogram").replaceChildren();
  at("caption").textContent = "Choose a tensor to see its histogram.";
  at("onnx").hidden = !file.hasModel;
  at("found").hidden = false;
  say(`${name}: ${file.tensors.size} tensors`);
}

function download(parts, name) {
  const link = element("a", undefined, { href: URL.createObjectURL(new Blob(parts)), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  say(`${name} is ready`);
}

const openLocal = (given) => given && attempt(`Opening ${given.name} …`, async () => show(await open(given), given.name));

at("file").addEventListener("change", (event) => openLocal(event.target.files[0]));
for (const kind of ["dragover", "dragleave", "drop"])
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") openLocal(event.dataTransfer.files[0]);
  });
at("fetch").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(`Loading ${at('url').value} …`, async () => {
    const url = new URL(at('url').value, location.href);
    show(await open(url), url.pathname.split('/').pop());
  });
});
at("safetensors").addEventListener("click", () => attempt("Decoding all tensors …", async () => {
  const values = await file.readAll();
  showFacts();
  download(safetensors([...file.tensors.values()].map((tensor) => [tensor, values.get(tensor.name)])), `${title}.safetensors`);
}));
at("onnx").addEventListener("click", () => attempt("Expanding the model …", async () => download([await file.onnx()], `${title}.onnx`)));
document.body.dataset.ready = "yes";
