// The page: its views, of which the address selects one.
import { Trail, parse } from "./address.js";
import { get } from "./api.js";
import { $, make } from "./dom.js";
import * as engine from "./engine.js";
import { Play } from "./play.js";
import { whenRefused } from "./storage.js";
import { language, languages, say, speak, translate } from "./strings.js";
import { explain } from "./words.js";

// The views, with the keys of their names in strings.js.
const names = {
  play: "page.play", next: "page.learn", review: "review.name", puzzles: "puzzles.nav", drill: "drill.name", explore: "page.study", service: "page.service",
  runs: "page.runs",
};

const learning = ["next", "review", "puzzles", "drill"]; // the views of a mode

const views = { learn: "next", study: "explore", tree: "explore", training: "runs" }; // other names of views in addresses

function report(error) {
  $("problem").hidden = !error;
  $("problem").textContent = error ? error.message : "";
}

// Dashboard refreshes its view periodically while the view is shown.
class Dashboard {
  constructor(view, every) {
    this.view = view;
    this.every = every;
    document.addEventListener("visibilitychange", () => this.run());
  }

  show(shown, place, more) {
    this.shown = shown;
    if (shown) {
      this.view.arrive?.(place, more);
    }
    this.run();
  }

  run() {
    clearInterval(this.timer);
    if (this.shown && !document.hidden) {
      this.look();
      this.timer = setInterval(() => this.look(), this.every);
    }
  }

  // look sends no request before the last one is answered, which may take until the server can be reached again.
  async look() {
    if (!this.looking) {
      this.looking = true;
      await this.view.look();
      this.looking = false;
    }
  }
}

// Later loads a view when it is first shown: the first screen is the board, and needs no other view.
class Later {
  constructor(section, load) {
    this.section = section;
    this.load = load;
    section.inert = true;
  }

  async show(shown, ...of) {
    if (shown || this.view) {
      this.view ??= this.load().finally(() => { this.section.inert = false; });
      await this.view.then((view) => view.show(shown, ...of)).catch(report);
    }
  }
}

// offerLanguages fills the list of languages at the end of the page.
function offerLanguages() {
  $("language").replaceChildren(...Object.entries(languages).map(([name, text]) => make("option", { value: name, lang: name }, text)));
  $("language").value = language;
  $("language").addEventListener("change", () => speak($("language").value));
}

// tellRefused says once that the browser stores nothing.
function tellRefused() {
  const [text, close] = $("unkept").children;
  whenRefused(() => {
    text.textContent = say("page.unkept");
    $("unkept").hidden = false;
  });
  close.addEventListener("click", () => { $("unkept").hidden = true; });
}

async function main() {
  translate();
  tellRefused();
  offerLanguages();
  explain();
  const config = await get("/ui/config");
  const trail = new Trail();
  const play = new Play(config, trail, report);
  const later = (name, made, section = name) => new Later($(section), async () => made(await import(`./${name}.js`)));
  const shown = {
    next: later("next", (m) => new m.Next()), review: later("review", (m) => new m.Review(trail, report)), puzzles: later("puzzles", (m) => new m.Puzzles(trail, report)),
    drill: later("drill", (m) => new m.Drill(report)), explore: later("explorer", (m) => new m.Explorer(config, report), "explore"),
  };
  if (config.service) {
    shown.service = later("service", (m) => new Dashboard(new m.Service(), m.serviceEvery));
  }
  if (config.training) {
    shown.runs = later("runs", (m) => new Dashboard(new m.Runs(trail), m.runsEvery));
  }
  for (const name of Object.keys(shown)) {
    $("to-" + name).hidden = false;
  }
  for (const id of ["explore-svg", "explore-png", "explore-file"]) {
    $(id).hidden = engine.here; // the server makes them
  }
  document.querySelector(".skip").addEventListener("click", (e) => {
    e.preventDefault(); // the address belongs to the game
    $("main").focus();
    $("main").scrollIntoView();
  });
  const route = () => {
    const fresh = trail.arrive();
    const { place, players, more } = parse(location.hash);
    report(null);
    const wanted = place.split("=")[0];
    const named = Object.hasOwn(views, wanted) ? views[wanted] : wanted;
    const name = Object.hasOwn(shown, named) ? named : "play";
    $("to-learn").setAttribute("aria-current", String(learning.includes(name)));
    document.querySelector(".parts").hidden = !learning.includes(name);
    for (const view of Object.keys(names)) {
      $(view).hidden = view !== name;
      if (view === name) {
        $("to-" + view).setAttribute("aria-current", "page");
      } else {
        $("to-" + view).removeAttribute("aria-current");
      }
      const there = shown[view]?.show(view === name, place, more);
      if (view === name) {
        Promise.resolve(there).finally(ready);
      }
    }
    document.title = `${say(names[name])} - evald`;
    play.see(name === "play");
    if (name === "play") {
      play.open(place, players, fresh);
    }
  };
  const ready = () => document.body.classList.add("ready"); // the footer would move while the first view is filled
  if (engine.here) {
    engine.load().catch(report);
  }
  addEventListener("popstate", route); // browsers also send it after a link to another part of the page
  route();
}

main().catch(report);
