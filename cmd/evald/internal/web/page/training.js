// The dashboard of training runs.
import { get } from "./api.js";
import { lineChart, panel } from "./charts.js";
import { $, make } from "./dom.js";
import { inWords, titled } from "./names.js";
import { say } from "./strings.js";

export const trainingEvery = 10000; // milliseconds

export class Training {
  constructor() {
    $("run").addEventListener("change", () => this.look());
  }

  async look() {
    try {
      const { runs, left } = await get("/ui/runs");
      this.list(runs);
      this.left = left.length ? " " + say("training.left", { files: left.join(", ") }) : "";
      if (!runs.length) {
        $("training-note").textContent = say("training.none") + this.left;
        $("curves").replaceChildren();
        return;
      }
      this.show(await get("/ui/run?name=" + encodeURIComponent($("run").value)));
    } catch (e) {
      $("training-note").textContent = e.message;
    }
  }

  list(runs) {
    const names = runs.map((r) => r.name);
    if (names.join("\n") !== this.names) {
      const chosen = $("run").value;
      $("run").replaceChildren(...names.map((n) => make("option", { value: n }, n === "." ? say("training.here") : n)));
      if (names.includes(chosen)) {
        $("run").value = chosen;
      }
      this.names = names.join("\n");
    }
  }

  panel(group, x) {
    const curves = group.curves.map((c) => ({ ...c, name: inWords(c.name) }));
    return panel(group.name, titled(group.name), say("training.by", { x: inWords(x) }), lineChart(titled(group.name), curves));
  }

  show(run) {
    const notes = run.files.map((f) => {
      const parts = [say("training.rows", { file: f.file, n: f.rows }), f.cut && say("training.cut"),
        f.skipped && say("training.skipped", { n: f.skipped }), f.too_few && say("training.few", { n: f.too_few })];
      return parts.filter(Boolean).join(", ");
    });
    $("training-note").textContent = notes.join("; ") + (this.left && "." + this.left);
    $("curves").replaceChildren(...run.files.map((f) => make("section", {}, make("h2", {}, f.file), make("div", { class: "panels" },
      ...f.groups.map((g) => this.panel(g, f.x))))));
  }
}
