// The page of a lazydelta server: tables, a scan whose files arrive while the log is read, history.
// Files are counted as they arrive; only the first ones stay in the document.

const SHOWN_FILES = 500;
const SHOWN_PARTITIONS = 8;
const CAPABILITIES = "deletionVectors,columnMapping,typeWidening"; // the page lists files, it does not read them
const SVG = "http://www.w3.org/2000/svg";

const element = (id) => document.getElementById(id);
let token = null;
let selected = null;
let running = null;

function status(text, bad = false) {
  element("status").textContent = text;
  element("status").classList.toggle("bad", bad);
}

async function request(path, options = {}) {
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  const answer = await fetch(path, { ...options, headers });
  if (answer.ok) return answer;
  let message = `${answer.status} ${answer.statusText}`;
  try {
    message = (await answer.json()).message || message;
  } catch { /* not JSON: the status says what is known */ }
  const error = new Error(message);
  error.status = answer.status;
  throw error;
}

function path(name) {
  return `/v1/tables/${name.split("/").map(encodeURIComponent).join("/")}`;
}

function fail(error) {
  if (error.name === "AbortError") return;
  element("login").hidden = error.status !== 401;
  if (error.status === 401) element("token").focus();
  status(error.message, true);
}

// --- text

const integer = new Intl.NumberFormat("en");

function count(value) {
  return value === null || value === undefined ? "unknown" : integer.format(value);
}

function size(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(unit && value < 100 ? 1 : 0)} ${units[unit]}`;
}

function milliseconds(value) {
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`;
}

function typeName(type) {
  if (typeof type === "string") return type;
  if (type.type === "array") return `array<${typeName(type.elementType)}>`;
  if (type.type === "map") return `map<${typeName(type.keyType)}, ${typeName(type.valueType)}>`;
  return `struct<${type.fields.map((field) => `${field.name}: ${typeName(field.type)}`).join(", ")}>`;
}

function partition(values) {
  const pairs = Array.isArray(values) ? values.map(({ key, value }) => [key, value]) : Object.entries(values || {});
  return pairs.map(([name, value]) => `${name}=${value === null ? "null" : value}`).join(", ");
}

// --- tables

function row(cells, numbers = []) {
  const line = document.createElement("tr");
  cells.forEach((cell, index) => {
    const place = line.insertCell();
    if (numbers.includes(index)) place.className = "number";
    place.append(cell);
  });
  return line;
}

async function loadTables() {
  const { tables } = await (await request("/v1/tables")).json();
  element("login").hidden = true;
  const body = element("tables").tBodies[0];
  body.replaceChildren();
  for (const { name } of tables) {
    const choose = document.createElement("button");
    choose.type = "button";
    choose.textContent = name;
    choose.addEventListener("click", () => select(name).catch(fail));
    const line = row([choose, "…", "…", "…"], [1, 2, 3]);
    body.append(line);
    request(path(name)).then((answer) => answer.json()).then((table) => {
      line.cells[1].textContent = count(table.version);
      line.cells[2].textContent = table.files === null ? `about ${count(table.estimated_files)}` : count(table.files);
      line.cells[3].textContent = size(table.bytes);
    }).catch((error) => { line.cells[1].textContent = error.message; });
  }
  status(tables.length === 1 ? "1 table" : `${tables.length} tables`);
}

async function select(name) {
  stop();
  selected = name;
  const [table, log] = await Promise.all([
    request(path(name)).then((answer) => answer.json()),
    request(`${path(name)}/history?limit=50`).then((answer) => answer.json()),
  ]);
  if (selected !== name) return;
  document.querySelector("#schema-title .name").textContent = name;
  const partitions = table.partition_columns.length ? `partitioned by ${table.partition_columns.join(", ")}` : "not partitioned";
  const features = table.reader_features.length ? `; reader features ${table.reader_features.join(", ")}` : "";
  element("facts").textContent = `Version ${table.version}, ${partitions}${features}`;
  element("schema").tBodies[0].replaceChildren(...table.schema.fields.map((field) =>
    row([field.name, typeName(field.type), field.nullable ? "yes" : "no"])));
  element("history").tBodies[0].replaceChildren(...log.history.map((entry) => {
    const time = entry.timestamp === null ? "unknown" : new Date(entry.timestamp).toLocaleString();
    const metrics = Object.entries(entry.metrics).map(([key, value]) => `${key} ${value}`).join(", ");
    return row([count(entry.version), time, entry.operation || "unknown", metrics], [0]);
  }));
  clearScan();
  element("table").hidden = false;
  element("where").focus();
  status(`${name}, version ${table.version}`);
}

// --- scan

function clearScan() {
  for (const id of ["first", "files", "bytes", "time", "pruned", "read"]) element(id).textContent = "–";
  element("found").tBodies[0].replaceChildren();
  draw(new Summary());
}

class Summary {
  constructor() {
    this.files = 0;
    this.bytes = 0;
    this.bySize = new Map();
    this.byPartition = new Map();
  }

  add(file) {
    this.files += 1;
    this.bytes += file.size;
    const power = file.size > 0 ? Math.floor(Math.log2(file.size)) : 0;
    this.bySize.set(power, (this.bySize.get(power) || 0) + 1);
    const name = partition(file.partition_values);
    if (name) this.byPartition.set(name, (this.byPartition.get(name) || 0) + 1);
  }
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

async function scan(name) {
  stop();
  clearScan();
  const control = new AbortController();
  running = control;
  element("start").disabled = true;
  element("stop").disabled = false;
  const query = new URLSearchParams({ format: "ndjson", capabilities: CAPABILITIES, strategy: element("strategy").value });
  if (element("where").value.trim()) query.set("where", element("where").value.trim());
  if (element("limit").value !== "") query.set("limit", element("limit").value);
  const summary = new Summary();
  const started = performance.now();
  let painted = started;
  let end = null;
  status(`Scanning ${name}…`);
  try {
    const answer = await request(`${path(name)}/files?${query}`, { signal: control.signal });
    for await (const line of lines(answer.body)) {
      if (line.error) throw new Error(line.message);
      if (line.end) end = line;
      if (line.end || line.resume) continue;
      if (summary.files === 0) element("first").textContent = milliseconds(performance.now() - started);
      summary.add(line);
      if (summary.files <= SHOWN_FILES) show(line);
      if (performance.now() - painted > 200) {
        painted = performance.now();
        paint(summary, painted - started);
        await new Promise(requestAnimationFrame);
      }
    }
    if (end === null) throw new Error("The stream broke before its end: the list is incomplete.");
    finish(name, summary, end);
  } catch (error) {
    if (control.signal.aborted) status(`Stopped after ${count(summary.files)} files`);
    else fail(error);
  } finally {
    paint(summary, performance.now() - started);
    if (running === control) {
      running = null;
      element("start").disabled = false;
      element("stop").disabled = true;
    }
  }
}

function finish(name, summary, end) {
  element("pruned").textContent = count(end.files_pruned);
  element("read").textContent = `${count(end.commits_read)} and ${count(end.row_groups_read)}`;
  const shown = summary.files > SHOWN_FILES ? `, the first ${SHOWN_FILES} of them below` : "";
  status(`${count(summary.files)} files of ${name}, version ${end.version}${shown}`);
}

function show(file) {
  const name = document.createElement("span");
  name.textContent = decodeURIComponent(file.uri.split("/").pop());
  name.title = file.uri;
  const version = file.version === null ? "checkpoint" : count(file.version);
  const line = row([name, version, size(file.size), count(file.live_rows), partition(file.partition_values)], [1, 2, 3]);
  element("found").tBodies[0].append(line);
}

function paint(summary, elapsed) {
  element("files").textContent = count(summary.files);
  element("bytes").textContent = size(summary.bytes);
  element("time").textContent = milliseconds(elapsed);
  draw(summary);
}

function stop() {
  if (running !== null) running.abort();
}

// --- pictures

function shape(kind, attributes, text) {
  const node = document.createElementNS(SVG, kind);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function draw(summary) {
  const sizes = [...summary.bySize].sort(([a], [b]) => a - b).map(([power, files]) => [`${size(2 ** power)} +`, files]);
  const partitions = [...summary.byPartition].sort(([, a], [, b]) => b - a).slice(0, SHOWN_PARTITIONS);
  bars(element("sizes"), sizes.slice(-SHOWN_PARTITIONS * 2), "File sizes");
  bars(element("partitions"), partitions, "Partitions with the most files");
}

function bars(picture, values, title) {
  const most = Math.max(1, ...values.map(([, files]) => files));
  const height = values.length ? 180 / values.length : 180;
  const bar = Math.min(height * 0.7, 18);
  picture.replaceChildren();
  values.forEach(([label, files], index) => {
    const y = height * (index + 0.5);
    picture.append(
      shape("text", { x: 150, y: y + 4, "text-anchor": "end" }, label.length > 22 ? `${label.slice(0, 21)}…` : label),
      shape("rect", { x: 158, y: y - bar / 2, width: Math.max(1, (250 * files) / most), height: bar, rx: 2 }),
      shape("text", { x: 164 + Math.max(1, (250 * files) / most), y: y + 4 }, count(files)),
    );
  });
  const spoken = values.map(([label, files]) => `${label}: ${count(files)}`).join("; ");
  picture.setAttribute("aria-label", values.length ? `${title}. ${spoken}` : "No files yet");
}

// --- start

element("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = element("token").value;
  element("token").value = "";
  loadTables().catch(fail);
});
element("scan").addEventListener("submit", (event) => {
  event.preventDefault();
  scan(selected);
});
element("stop").addEventListener("click", stop);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
});
loadTables().catch(fail);
