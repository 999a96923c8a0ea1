// Charts as SVG.
import { count, draw, make } from "./dom.js";
import { explains } from "./names.js";
import { say } from "./strings.js";
import { term } from "./words.js";

const width = 320, height = 150, left = 44, right = 8, top = 8, bottom = 22;

// ticks returns up to five round numbers from low to high.
function ticks(low, high) {
  const span = high - low || Math.abs(high) || 1;
  const raw = span / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((f) => f * power >= raw) || 10);
  const all = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * span; k++) {
    all.push(k * step);
  }
  return all;
}

// frame draws a chart's background, grid and labels. It also returns the functions that map coordinates to the chart.
function frame(title, x0, x1, y0, y1, xText) {
  const x = (v) => left + ((v - x0) / (x1 - x0 || 1)) * (width - left - right);
  const y = (v) => height - bottom - ((v - y0) / (y1 - y0 || 1)) * (height - top - bottom);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  for (const v of ticks(y0, y1)) {
    svg.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      draw("text", { x: left - 5, y: y(v) + 4, "text-anchor": "end" }, count(v)));
  }
  if (x0 !== x1) {
    svg.append(draw("text", { x: left, y: height - 6 }, xText(x0)));
  }
  svg.append(draw("text", { x: width - right, y: height - 6, "text-anchor": "end" }, xText(x1)));
  return { svg, x, y };
}

function legend(entries) {
  return make("ul", { class: "legend" }, ...entries.map(({ name, text }, k) =>
    make("li", {}, make("i", { class: "k" + (k % 8) }), make("span", {}, name), make("b", {}, text))));
}

// lineChart draws curves {name, points: [[x, y], ..]}, with a band if points are [x, y, low, high]. It draws a curve of a single point as a
// dash.
export function lineChart(title, curves, { unit = "", xText = count, fromZero = false } = {}) {
  const all = curves.flatMap((c) => c.points);
  const figure = make("figure", { class: "chart" });
  if (!all.length) {
    return figure;
  }
  const xs = all.map((p) => p[0]), ys = all.flatMap((p) => p.slice(1));
  let low = ys.reduce((a, b) => Math.min(a, b)), high = ys.reduce((a, b) => Math.max(a, b));
  if (fromZero) {
    low = Math.min(0, low);
  }
  if (low === high) {
    [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 10, high + Math.abs(high) / 10];
  }
  const latest = curves.map((c) => `${c.name} ${count(c.points.at(-1)[1])}`).join(", ");
  const { svg, x, y } = frame(`${title}: ${latest}${unit && " " + unit}`, xs.reduce((a, b) => Math.min(a, b)), xs.reduce((a, b) => Math.max(a, b)), low, high, xText);
  curves.forEach((c, k) => {
    const banded = c.points.filter((p) => p.length === 4);
    if (banded.length === 1) {
      const [[px, , from, to]] = banded;
      svg.append(draw("path", { class: "k" + (k % 8), d: `M${x(px)} ${y(from)}V${y(to)}` }));
    } else if (banded.length) {
      const edge = (i) => (p) => `${x(p[0]).toFixed(1)} ${y(p[i]).toFixed(1)}`;
      svg.append(draw("path", { class: "band k" + (k % 8), d: "M" + [...banded.map(edge(2)), ...banded.map(edge(3)).reverse()].join("L") + "Z" }));
    }
    if (c.points.length === 1) {
      const [px, py] = c.points[0];
      svg.append(draw("path", { class: "k" + (k % 8), d: `M${x(px) - 3} ${y(py)}h6` }));
      return;
    }
    const d = c.points.map(([px, py], i) => `${i ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join("");
    svg.append(draw("path", { class: "k" + (k % 8), d }));
  });
  figure.append(svg, legend(curves.map((c) => ({ name: c.name, text: count(c.points.at(-1)[1]) }))));
  return figure;
}

// barChart draws counts [{name, count}] as bars.
export function barChart(title, bars) {
  const most = Math.max(1, ...bars.map((b) => b.count));
  const total = bars.reduce((n, b) => n + b.count, 0);
  const { svg, y } = frame(`${title}: ${bars.filter((b) => b.count).map((b) => `${b.name} ${count(b.count)}`).join(", ") || say("chart.none")}`, 0, 1, 0, most, () => "");
  const room = (width - left - right) / bars.length;
  const longest = Math.max(...bars.map((b) => b.name.length));
  bars.forEach((b, i) => {
    const at = left + i * room;
    svg.append(draw("rect", { class: "count", x: at + 0.1 * room, y: y(b.count), width: 0.8 * room, height: Math.max(0, y(0) - y(b.count)) }));
    if (i % Math.ceil(bars.length * longest / 45) === 0) { // only names that fit
      svg.append(draw("text", { x: at + room / 2, y: height - 6, "text-anchor": "middle" }, b.name));
    }
  });
  return make("figure", { class: "chart" }, svg, make("ul", { class: "legend" }, make("li", {}, make("span", {}, say("chart.all")), make("b", {}, count(total)))));
}

// panel returns a box with a title. If there is an explanation of the name, the title offers it.
export function panel(name, title, note, ...content) {
  const word = explains(name);
  const box = make("section", { class: "panel" }, make("h3", {}, word ? term(word, title) : title), ...content);
  if (note) {
    box.firstChild.append(" ", make("small", { class: "note" }, note));
  }
  return box;
}
