// The status of the running service: one line, and a row for each model. Grafana draws the curves (cmd/evald/deploy/components/prometheus/dashboard.json).
import { get } from "./api.js";
import { $, count, duration, make, setText } from "./dom.js";
import { say } from "./strings.js";

export const serviceEvery = 2000; // milliseconds

export class Service {
  constructor() {
    this.before = null;
  }

  async look() {
    try {
      this.show(await get("/ui/status"));
    } catch (e) {
      setText($("service-line"), e.message);
    }
  }

  // show shows a state of the service, and what has changed since the one before it, as numbers a second.
  show(now) {
    const before = this.before && this.before.time < now.time ? this.before : now;
    const seconds = now.time - before.time || 1;
    const was = new Map(before.models.map((m) => [`${m.name}\n${m.version}`, m]));
    // A counter that has fallen was set to 0 by a new start.
    const rate = (is, old) => (is - (old <= is ? old : 0)) / seconds;
    const rows = now.models.map((m) => {
      const old = was.get(`${m.name}\n${m.version}`) ?? m;
      const done = rate(m.done, old.done);
      return { ...m, rate: rate(m.rows, old.rows), done, mean: done ? rate(m.seconds, old.seconds) / done : 0 };
    });
    const sum = (name) => rows.reduce((n, m) => n + m[name], 0);
    const gpus = sum("gpus") + sum("lost") ? say("service.gpus", { n: sum("gpus"), all: sum("gpus") + sum("lost") }) + ", " : "";
    setText($("service-line"), now.error || say(now.ready ? "service.ready" : "service.waits", {
      rows: count(sum("rate")), done: count(sum("done")), gpus, busy: count(rate(now.cpu, before.cpu)), memory: count(now.memory) + "B",
    }));
    setText($("service-version"), say("service.version", { version: now.version }));
    $("models").tBodies[0].replaceChildren(...rows.map((m) => make("tr", {}, make("th", { scope: "row" }, m.name, " ", make("small", {}, m.version)),
      ...[count(m.rate), count(m.done), m.mean ? duration(m.mean) : "–", count(m.waiting), count(m.failed), count(m.refused), m.gpus + m.lost ? `${m.gpus}/${m.gpus + m.lost}` : "–"]
        .map((text) => make("td", {}, text)))));
    this.before = now;
  }
}
