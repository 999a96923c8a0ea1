// The dashboard of the running service.
import { get } from "./api.js";
import { barChart, lineChart, panel } from "./charts.js";
import { $, count, duration, make } from "./dom.js";
import { inWords, titled } from "./names.js";
import { named, say } from "./strings.js";

const every = 2000; // milliseconds
const kept = 150; // maximum number of points of a curve

export class Service {
  constructor() {
    this.curves = new Map(); // points by panel and series
    this.before = null;
  }

  async look() {
    try {
      this.show(await get("/ui/metrics"));
      $("service-note").textContent = say("service.note");
    } catch (e) {
      $("service-note").textContent = e.message;
    }
  }

  show(sample) {
    const seconds = this.before ? sample.time - this.before.time : 0;
    const old = new Map(this.before ? this.before.panels.flatMap((p) => p.series.map((s) => [p.title + "\n" + s.name, s])) : []);
    if (!this.before || seconds > 0) {
      $("panels").replaceChildren(...sample.panels.map((p) => this.panel(p, sample.time, seconds, old)));
      this.before = sample;
    }
    const rows = sample.others.map((m) => make("tr", {}, make("td", {}, m.help || titled(m.name), " ", make("code", {}, m.name)),
      make("td", {}, m.count ? `${count(m.value)} of ${count(m.count)}` : count(m.value))));
    $("others").tBodies[0].replaceChildren(...rows);
    $("others-box").hidden = rows.length === 0;
    if (!sample.panels.length) {
      $("panels").replaceChildren(make("p", { class: "note" }, say("service.nothing")));
    }
  }

  panel(p, time, seconds, old) {
    const title = named("panel", p.title) ?? p.title, unit = named("unit", p.unit) ?? p.unit;
    if (p.kind === "histogram") {
      const text = p.unit === "seconds" ? duration : count;
      return panel(p.title, title, unit, ...p.series.map((s) => {
        const mean = s.count ? ", " + say("chart.mean", { mean: text(s.value / s.count) }) : "";
        return make("div", {}, make("p", { class: "help" }, titled(s.name) + mean), barChart(`${title}, ${inWords(s.name)}`, bars(s, text)));
      }));
    }
    const curves = p.series.map((s) => {
      const key = p.title + "\n" + s.name;
      const points = this.curves.get(key) || [];
      this.curves.set(key, points);
      const was = old.get(key);
      if (p.kind === "gauge") {
        points.push([time, s.value]);
      } else if (seconds > 0) { // a new counter started at 0, and a counter that has fallen was reset to 0
        const from = was && was.value <= s.value ? was.value : 0;
        points.push([time, (s.value - from) / seconds]);
      }
      points.splice(0, Math.max(0, points.length - kept));
      return { name: inWords(s.name), points };
    }).filter((c) => c.points.length);
    const now = time;
    return panel(p.title, title, unit, lineChart(title, curves, { unit, fromZero: true, xText: (t) => `${Math.round(t - now)} s` }));
  }
}

// bars returns the number of observations in each bucket of a histogram, from cumulative counts.
function bars(s, text) {
  let below = 0;
  const all = (s.buckets || []).map((b) => {
    const bar = { name: text(b.most), count: b.count - below };
    below = b.count;
    return bar;
  });
  all.push({ name: say("chart.more"), count: s.count || 0 ? (s.count - below) : 0 });
  while (all.length > 2 && !all.at(-1).count && !all.at(-2).count) {
    all.pop(); // remove empty bars at the ends
  }
  while (all.length > 2 && !all[0].count && !all[1].count) {
    all.shift();
  }
  return all;
}

export const serviceEvery = every;
