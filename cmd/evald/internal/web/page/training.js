// The dashboard of training runs.
import { get } from "./api.js";
import { lineChart, panel } from "./charts.js";
import { $, make } from "./dom.js";
import { inWords, titled } from "./names.js";

export const trainingEvery = 10000; // milliseconds

export class Training {
  constructor() {
    $("run").addEventListener("change", () => this.look());
  }

  async look() {
    try {
      const { runs } = await get("/ui/runs");
      this.list(runs);
      if (!runs.length) {
        $("training-note").textContent = "There are no metrics yet: no folder here has a .jsonl file.";
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
      $("run").replaceChildren(...names.map((n) => make("option", { value: n }, n === "." ? "this folder" : n)));
      if (names.includes(chosen)) {
        $("run").value = chosen;
      }
      this.names = names.join("\n");
    }
  }

  panel(group, x) {
    const curves = group.curves.map((c) => ({ ...c, name: inWords(c.name) }));
    return panel(titled(group.name), "by " + inWords(x), lineChart(titled(group.name), curves));
  }

  show(run) {
    const notes = run.files.map((f) => {
      const skipped = f.skipped ? `, ${f.skipped} lines that cannot be read` : "";
      const few = f.too_few ? `, ${f.too_few} with too few games to tell the strength (Elo)` : "";
      return `${f.file}: ${f.rows} rows${f.cut ? ", the newest" : ""}${skipped}${few}`;
    });
    $("training-note").textContent = notes.join("; ");
    $("curves").replaceChildren(...run.files.map((f) => make("section", {}, make("h2", {}, f.file), make("div", { class: "panels" },
      ...f.groups.map((g) => this.panel(g, f.x))))));
  }
}
