// The SQL editor: runs statements, cancels them, completes names, remembers the history and shows results.

import { drawChart } from "./chart.js";
import { attachCompletion } from "./completion.js";
import { buildTable } from "./results.js";

const HISTORY_KEY = "mangrove-sql-history";
const HISTORY_MAX = 50;

const form = document.getElementById("editor");
const input = document.getElementById("text");
const status = document.getElementById("status");
const history = document.getElementById("recent");
const cancelButton = document.getElementById("cancel");
const output = document.getElementById("output");
const exportForm = document.getElementById("export");
let runningId = null;

async function post(path, fields) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...fields, proof: form.elements.proof.value }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

async function run(text) {
  if (runningId !== null || !text.trim()) return;
  runningId = crypto.randomUUID();
  setRunning(true);
  remember(input.value);
  try {
    show(await post("/api/sql", { id: runningId, text }), text);
  } catch (error) {
    output.replaceChildren();
    exportForm.hidden = true;
    report(error.message, true);
  } finally {
    runningId = null;
    setRunning(false);
  }
}

function setRunning(isRunning) {
  cancelButton.disabled = !isRunning;
  form.elements.run.disabled = isRunning;
  if (isRunning) report("Running…", false);
}

function report(message, isError) {
  status.textContent = message;
  status.classList.toggle("error", isError);
}

function show(answer, text) {
  output.replaceChildren();
  const count = `${answer.rows.length.toLocaleString("en")}${answer.has_more ? "+" : ""}`;
  const rows = `${count} ${count === "1" ? "row" : "rows"}`;
  report(`${answer.message ? `${answer.message} · ` : ""}${rows} in ${answer.millis.toLocaleString("en")} ms`, false);
  const isPlan = /^\s*explain\b/i.test(text);
  exportForm.elements.text.value = text;
  exportForm.hidden = isPlan || answer.message !== "";
  if (isPlan) {
    const plan = document.createElement("pre");
    plan.textContent = answer.rows.map((row) => row[0]).join("\n");
    output.append(plan);
  } else if (answer.columns.length) {
    const chart = drawChart(answer.columns, answer.rows);
    if (chart) output.append(chart);
    output.append(buildTable(answer.columns, answer.rows));
  }
  if (answer.files.length && !isPlan) output.append(describeFiles(answer.files));
}

function describeFiles(files) {
  const list = document.createElement("ul");
  list.className = "note";
  for (const one of files) {
    const entry = document.createElement("li");
    entry.textContent = one.description;
    list.append(entry);
  }
  return list;
}

function loadHistory() {
  try {
    const entries = JSON.parse(localStorage.getItem(HISTORY_KEY));
    return Array.isArray(entries) ? entries.filter((entry) => typeof entry === "string") : [];
  } catch {
    return [];
  }
}

function remember(text) {
  const entries = [text, ...loadHistory().filter((entry) => entry !== text)].slice(0, HISTORY_MAX);
  try {
    localStorage.setItem(HISTORY_KEY, JSON.stringify(entries));
  } catch {
    // A browser may refuse to store anything; the editor works without a history.
  }
  showHistory(entries);
}

function showHistory(entries) {
  const choices = entries.map((entry) => new Option(entry.replace(/\s+/g, " ").slice(0, 80), entry));
  history.replaceChildren(new Option("Recent statements", ""), ...choices);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  run(input.value);
});
document.getElementById("explain").addEventListener("click", () => {
  run(/^\s*explain\b/i.test(input.value) ? input.value : `EXPLAIN ${input.value}`);
});
cancelButton.addEventListener("click", () => {
  if (runningId !== null) post("/api/sql/cancel", { id: runningId }).catch((error) => report(error.message, true));
});
history.addEventListener("change", () => {
  if (history.value) input.value = history.value;
  history.value = "";
  input.focus();
});
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run(input.value);
  }
});
exportForm.addEventListener("submit", () => {
  exportForm.elements.id.value = crypto.randomUUID();
});

showHistory(loadHistory());
attachCompletion(input, document.getElementById("completions"), form.dataset.names);
