// A chart of a result, chosen by the types of its columns:
//   a time and a number     a line
//   a text and a number     bars
//   one number              a histogram
// The number is the first one after the time or text, or else the last one.

import { formatTime, isNumeric } from "./results.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 720;
const HEIGHT = 220;
const LEFT = 70;
const BOTTOM = 28;
const TOP = 10;
const BARS_MAX = 40;
const LABELS_MAX = 12;
const CHARACTER_WIDTH = 7;
const BINS = 20;

export function drawChart(columns, rows) {
  const time = columns.findIndex((column) => /^(date|timestamp)/.test(column.type));
  const text = columns.findIndex((column) => /^(string|varchar|char|boolean)/.test(column.type));
  const label = time >= 0 ? time : text;
  const following = columns.findIndex((column, place) => place > label && isNumeric(column.type));
  const number = following >= 0 ? following : columns.findLastIndex((column) => isNumeric(column.type));
  if (number < 0 || rows.length < 2) return null;
  const values = rows.map((row) => (row[number] === null ? NaN : Number(row[number])));
  if (time >= 0) return drawLine(columns, rows, values, time, number);
  if (text >= 0 && rows.length <= BARS_MAX) {
    const labels = rows.map((row) => String(row[text]));
    return drawBars(`${columns[number].name} by ${columns[text].name}`, labels, values);
  }
  return columns.length === 1 ? drawHistogram(columns[number].name, values) : null;
}

function drawLine(columns, rows, values, time, number) {
  const points = rows
    .map((row, place) => ({ label: formatTime(row[time]), at: Date.parse(row[time]), value: values[place] }))
    .filter((point) => Number.isFinite(point.at) && Number.isFinite(point.value))
    .sort((one, two) => one.at - two.at);
  if (points.length < 2) return null;
  const chart = new Chart(`${columns[number].name} by ${columns[time].name}`, points.map((point) => point.value));
  const [first, last] = [points[0].at, points.at(-1).at];
  const placed = points.map((point) => [chart.x((point.at - first) / Math.max(1, last - first)), chart.y(point.value)]);
  chart.add("path", { d: `M${placed.map((place) => place.join(" ")).join("L")}`, class: "line" });
  placed.forEach(([cx, cy], place) => {
    chart.add("circle", { cx, cy, r: 3, class: "dot" }, `${points[place].label}: ${points[place].value}`);
  });
  chart.addLabels(points[0].label, points.at(-1).label);
  return chart.figure;
}

function drawBars(title, labels, values) {
  const chart = new Chart(title, [0, ...values.filter(Number.isFinite)]);
  const step = (WIDTH - LEFT) / labels.length;
  values.forEach((value, place) => {
    if (!Number.isFinite(value)) return;
    const [top, bottom] = [chart.y(Math.max(0, value)), chart.y(Math.min(0, value))];
    const box = { x: LEFT + place * step + 1, y: top, width: Math.max(1, step - 3), height: Math.max(1, bottom - top) };
    chart.add("rect", { ...box, class: "filled" }, `${labels[place]}: ${value}`);
  });
  if (labels.length > LABELS_MAX) chart.addLabels(labels[0], labels.at(-1));
  else labels.forEach((label, place) => {
    chart.addText(LEFT + (place + 0.5) * step, HEIGHT - 8, "middle", label, Math.floor(step / CHARACTER_WIDTH));
  });
  return chart.figure;
}

function drawHistogram(name, values) {
  const finite = values.filter(Number.isFinite);
  if (finite.length < 2) return null;
  const low = finite.reduce((one, two) => Math.min(one, two));
  const high = finite.reduce((one, two) => Math.max(one, two));
  const width = (high - low) / BINS;
  if (!(width > 0 && Number.isFinite(width))) return null;
  const counts = new Array(BINS).fill(0);
  for (const value of finite) counts[Math.min(BINS - 1, Math.floor((value - low) / width))] += 1;
  const labels = counts.map((_, place) => `from ${Number((low + place * width).toPrecision(4))}`);
  return drawBars(`Histogram of ${name}`, labels, counts);
}

class Chart {
  constructor(title, values) {
    this.low = Math.min(...values);
    this.high = Math.max(...values);
    this.svg = create("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
    this.figure = document.createElement("figure");
    this.figure.className = "plot chart";
    const caption = document.createElement("figcaption");
    caption.textContent = title;
    this.figure.append(caption, this.svg);
    for (const value of new Set([this.low, (this.low + this.high) / 2, this.high])) {
      const y = this.y(value);
      this.add("line", { x1: LEFT, x2: WIDTH, y1: y, y2: y, class: "rule" });
      this.addText(LEFT - 8, y + 4, "end", Number(value.toPrecision(4)).toLocaleString("en"));
    }
  }

  x(share) {
    return LEFT + share * (WIDTH - LEFT - 8);
  }

  y(value) {
    const share = this.high > this.low ? (value - this.low) / (this.high - this.low) : 0.5;
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  }

  add(tag, attributes, tooltip = "") {
    const element = create(tag, attributes);
    if (tooltip) {
      const title = create("title", {});
      title.textContent = tooltip;
      element.append(title);
    }
    this.svg.append(element);
  }

  addText(x, y, anchor, text, charactersMax = 28) {
    const element = create("text", { x, y, "text-anchor": anchor, class: "axis" });
    element.textContent = text.length > charactersMax ? `${text.slice(0, charactersMax - 1)}…` : text;
    this.svg.append(element);
  }

  addLabels(first, last) {
    this.addText(LEFT, HEIGHT - 8, "start", first);
    this.addText(WIDTH - 4, HEIGHT - 8, "end", last);
  }
}

function create(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}
