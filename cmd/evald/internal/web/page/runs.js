// Training runs: a table of all, and one curve of one or two of them. TensorBoard draws the rest.
import { get } from "./api.js";
import { $, count, make, setText } from "./dom.js";
import { titled } from "./names.js";
import { language, say } from "./strings.js";

export const runsEvery = 10000; // milliseconds

const recent = 300; // seconds since its last change in which a run counts as running
const colours = ["--c0", "--c1"];

// library loads uPlot, which is needed in this view alone.
let library = null;
function loaded() {
  return library ??= new Promise((resolve, reject) => {
    const script = make("script", { src: new URL("uplot.js", import.meta.url) }), style = make("link", { rel: "stylesheet", href: new URL("uplot.css", import.meta.url) });
    script.addEventListener("load", () => resolve(window.uPlot));
    script.addEventListener("error", () => reject(new Error(say("runs.noChart"))));
    document.head.append(style, script);
  });
}

const address = (chosen, curve) => `#runs=${encodeURIComponent(chosen[0] ?? "")}&${new URLSearchParams({ ...(chosen[1] ? { with: chosen[1] } : {}), ...(curve ? { curve } : {}) })}`;

export class Runs {
  constructor(trail) {
    this.trail = trail;
    this.chosen = []; // names of the runs in the chart
    this.curve = "";
    $("run-table").addEventListener("change", (e) => this.choose(e.target.value, e.target.checked));
    $("run-curve").addEventListener("change", () => this.go(this.chosen, $("run-curve").value));
  }

  // arrive takes the runs and the curve of an address: runs=NAME&with=OTHER&curve=elo.
  arrive(place, more) {
    const name = place.slice("runs=".length);
    if (name) {
      this.chosen = [name, more.get("with")].filter(Boolean);
      this.curve = more.get("curve") ?? "";
    }
  }

  choose(name, on) {
    const others = this.chosen.filter((n) => n !== name);
    this.go(on ? [...others.slice(-1), name] : others, this.curve);
  }

  go(chosen, curve) {
    Object.assign(this, { chosen, curve });
    this.trail.replace(address(chosen, curve));
    this.look();
  }

  async look() {
    try {
      const { runs, left, now } = await get("/ui/runs");
      const names = runs.map((r) => r.name);
      this.chosen = this.chosen.filter((n) => names.includes(n));
      if (!this.chosen.length) {
        this.chosen = names.slice(0, 1);
      }
      setText($("runs-note"), [runs.length ? "" : say("runs.none"), left.length ? say("runs.left", { files: left.join(", ") }) : ""].filter(Boolean).join(" "));
      this.table(runs, now);
      const shown = await Promise.all(this.chosen.map((name) => get("/ui/run?name=" + encodeURIComponent(name))));
      await this.draw(shown);
    } catch (e) {
      setText($("runs-note"), e.message);
    }
  }

  table(runs, now) {
    const focused = document.activeElement?.closest("#run-table input")?.value;
    const interval = (x, text) => (x ? (x.length === 3 ? say("runs.interval", { value: text(x[0]), low: text(x[1]), high: text(x[2]) }) : text(x[0])) : "–");
    $("run-table").tBodies[0].replaceChildren(...runs.map((r) => {
      const box = make("input", { type: "checkbox", value: r.name, "aria-label": say("runs.draw", { name: r.name }) });
      box.checked = this.chosen.includes(r.name);
      const age = now - r.modified;
      const cells = [say(age < recent ? "runs.running" : "runs.still"), r.at === null ? "–" : `${titled(r.x)} ${count(r.at)}`,
        interval(r.good, (x) => (100 * x).toFixed(1) + "%"), interval(r.elo, (x) => x.toFixed(0)), new Date(1000 * r.modified).toLocaleString(language)];
      return make("tr", {}, make("td", {}, box), make("th", { scope: "row" }, make("a", { href: address([r.name], this.curve) }, r.name === "." ? say("runs.here") : r.name)),
        ...cells.map((text) => make("td", {}, text)));
    }));
    [...$("run-table").querySelectorAll("input")].find((box) => box.value === focused)?.focus();
  }

  // draw draws the chosen curve of the runs. A curve that only one of them has is that one's alone.
  async draw(runs) {
    const all = runs.map((run) => new Map(run.files.flatMap((f) => f.groups.flatMap((g) => g.curves.map((c) => [label(g, c), { x: f.x, points: c.points }])))));
    const names = [...new Set(all.flatMap((curves) => [...curves.keys()]))];
    const curve = names.includes(this.curve) ? this.curve : names.find((n) => /^elo/.test(n)) ?? names.find((n) => /good|perfect/.test(n)) ?? names[0] ?? "";
    $("run-curve").replaceChildren(...names.map((n) => make("option", { value: n }, titled(n))));
    $("run-curve").value = curve;
    const drawn = all.flatMap((curves, i) => (curves.has(curve) ? [{ name: this.chosen[i], colour: colours[i], ...curves.get(curve) }] : []));
    const text = drawn.map((c) => `${c.name}: ${count(c.points.at(-1)[1])}`).join(", ");
    $("run-chart").setAttribute("aria-label", curve && say("runs.chart", { curve: titled(curve), latest: text }));
    const key = JSON.stringify([curve, drawn.map((c) => [c.name, c.points.length, c.points.at(-1)]), language, innerWidth]);
    if (key !== this.key) {
      this.key = key;
      this.chart?.destroy();
      this.chart = drawn.length ? chart(await loaded(), $("run-chart"), titled(drawn[0].x), drawn) : null;
    }
  }
}

// label returns the name of a curve among all of a run.
function label(group, curve) {
  return group.curves.length === 1 || group.name === curve.name ? curve.name : `${group.name} ${curve.name}`;
}

// chart draws curves {name, colour, points: [[x, y], ..]}, with a band if points are [x, y, low, high], and shows the values below the pointer.
function chart(uPlot, element, x, curves) {
  const style = getComputedStyle(element), colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--faint"), grid: { stroke: colour("--edge"), width: 1 }, ticks: { stroke: colour("--edge") } };
  const bands = (u) => curves.forEach((c) => {
    const banded = c.points.filter((p) => p.length === 4);
    u.ctx.fillStyle = colour(c.colour) + "30";
    u.ctx.beginPath();
    [...banded.map((p) => [p[0], p[2]]), ...banded.map((p) => [p[0], p[3]]).reverse()].forEach(([at, y]) => u.ctx.lineTo(u.valToPos(at, "x", true), u.valToPos(y, "y", true)));
    u.ctx.fill();
  });
  const ys = curves.flatMap((c) => c.points.flatMap((p) => p.slice(1)));
  const range = uPlot.rangeNum(Math.min(...ys), Math.max(...ys), 0.1, true);
  return new uPlot({
    width: element.clientWidth, height: 320, hooks: { drawClear: [bands] },
    scales: { x: { time: false }, y: { range } },
    axes: [axis, axis],
    series: [{ label: x }, ...curves.map((c) => ({
      label: c.name, stroke: colour(c.colour), width: 2, spanGaps: true, points: { show: c.points.length < 40 },
      value: (u, y, _, i) => {
        const [, , low, high] = i === null ? [] : c.points.find((p) => p[0] === u.data[0][i]) ?? [];
        return y === null || y === undefined ? "–" : count(y) + (low === undefined ? "" : ` (${count(low)} .. ${count(high)})`);
      },
    }))],
  }, uPlot.join(curves.map((c) => [c.points.map((p) => p[0]), c.points.map((p) => p[1])])), element);
}
