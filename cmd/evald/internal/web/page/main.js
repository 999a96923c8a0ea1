// The page: its views, and which one the address selects.
import { Trail, parse } from "./address.js";
import { get } from "./api.js";
import { $, make } from "./dom.js";
import { Play } from "./play.js";
import { Service, serviceEvery } from "./service.js";
import { language, languages, say, speak, translate } from "./strings.js";
import { Training, trainingEvery } from "./training.js";
import { TreeView } from "./tree.js";
import { explain } from "./words.js";

const titles = { play: "Play - evald", tree: say("tree.title"), service: "Service - evald", training: "Training - evald" };

function report(error) {
  $("problem").hidden = !error;
  $("problem").textContent = error ? error.message : "";
}

// Dashboard refreshes its view periodically while that is shown.
class Dashboard {
  constructor(view, every) {
    this.view = view;
    this.every = every;
    document.addEventListener("visibilitychange", () => this.run());
  }

  show(shown) {
    this.shown = shown;
    this.run();
  }

  run() {
    clearInterval(this.timer);
    if (this.shown && !document.hidden) {
      this.view.look();
      this.timer = setInterval(() => this.view.look(), this.every);
    }
  }
}

// offerLanguages fills the list of languages at the end of the page.
function offerLanguages() {
  $("language").replaceChildren(...Object.entries(languages).map(([name, text]) => make("option", { value: name, lang: name }, text)));
  $("language").value = language;
  $("language").addEventListener("change", () => speak($("language").value));
}

async function main() {
  translate();
  offerLanguages();
  explain();
  const config = await get("/ui/config");
  const trail = new Trail();
  const play = new Play(config, trail, report);
  const views = {};
  const tree = new TreeView(config);
  if (config.service) {
    views.service = new Dashboard(new Service(), serviceEvery);
  }
  if (config.training) {
    views.training = new Dashboard(new Training(), trainingEvery);
  }
  for (const name of Object.keys(views)) {
    $("to-" + name).hidden = false;
  }
  const route = () => {
    const fresh = trail.arrive();
    const { place, players } = parse(location.hash);
    const wanted = place.startsWith("tree=") ? "tree" : place;
    const name = wanted === "tree" || Object.hasOwn(views, wanted) ? wanted : "play";
    for (const view of Object.keys(titles)) {
      $(view).hidden = view !== name;
      if (view === name) {
        $("to-" + view).setAttribute("aria-current", "page");
      } else {
        $("to-" + view).removeAttribute("aria-current");
      }
      views[view]?.show(view === name);
    }
    document.title = titles[name];
    report(null);
    tree.see(name === "tree" ? place.slice("tree=".length) : null);
    play.see(name === "play");
    if (name === "play") {
      play.open(place, players, fresh);
    }
  };
  addEventListener("popstate", route); // also after a link to another part of the page
  route();
}

main().catch(report);
