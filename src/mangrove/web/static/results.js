// A table of rows; nested values and long texts are folded.

const TEXT_CHARACTERS_MAX = 80;

export function isNumeric(type) {
  return /^(tinyint|smallint|int|bigint|float|double|decimal)/.test(type);
}

function classOf(type) {
  if (isNumeric(type)) return "number";
  return /^(date|timestamp)/.test(type) ? "time" : "";
}

export function buildTable(columns, rows) {
  const region = make("div", "scroll");
  region.tabIndex = 0;
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", "Rows");
  const table = make("table");
  const head = make("tr");
  for (const column of columns) {
    const cell = make("th", classOf(column.type), column.name);
    cell.scope = "col";
    cell.append(make("br"), make("code", "quiet", column.type));
    head.append(cell);
  }
  const body = make("tbody");
  for (const row of rows) {
    const line = make("tr");
    row.forEach((value, place) => line.append(buildCell(value, classOf(columns[place].type))));
    body.append(line);
  }
  const heads = make("thead");
  heads.append(head);
  table.append(heads, body);
  region.append(table);
  return region;
}

// A time as the pages of rows show it; a midnight in UTC is the date.
export function formatTime(value) {
  return String(value).replace(/T00:00:00(\+00:00)?$/, "").replace("T", " ");
}

function buildCell(value, className) {
  if (value === null) return make("td", "null", "null");
  const cell = make("td", className);
  const plain = className === "time" ? formatTime(value) : String(value);
  const text = typeof value === "object" ? JSON.stringify(value, null, 2) : plain;
  if (typeof value !== "object" && text.length <= TEXT_CHARACTERS_MAX) {
    cell.textContent = text;
    return cell;
  }
  const folded = make("details", "nested");
  const start = text.replace(/\s+/g, " ").slice(0, TEXT_CHARACTERS_MAX);
  folded.append(make("summary", "", start.length < text.length ? `${start}…` : start), make("pre", "", text));
  cell.append(folded);
  return cell;
}

function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}
