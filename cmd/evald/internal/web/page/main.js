// The page: its views, and which of them the address names. #7x6x4:4455 is a position, #service and #training are views.
import { get } from "./api.js";
import { $ } from "./dom.js";
import { Play } from "./play.js";
import { Service, serviceEvery } from "./service.js";
import { Training, trainingEvery } from "./training.js";

function report(error) {
  $("problem").hidden = !error;
  $("problem").textContent = error ? error.message : "";
}

// Dashboard looks again and again while its view is shown.
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

async function main() {
  const config = await get("/ui/config");
  const play = new Play(config, report);
  const views = {};
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
    let hash = location.hash.slice(1);
    try {
      hash = decodeURIComponent(hash);
    } catch {
      // it is taken as it stands, and the server says what is wrong with it
    }
    const name = hash in views ? hash : "play";
    for (const view of ["play", "service", "training"]) {
      $(view).hidden = view !== name;
      if (view === name) {
        $("to-" + view).setAttribute("aria-current", "page");
      } else {
        $("to-" + view).removeAttribute("aria-current");
      }
      views[view]?.show(view === name);
    }
    document.title = { play: "evald", service: "evald: service", training: "evald: training" }[name];
    report(null);
    play.see(name === "play");
    if (name === "play") {
      play.open(hash);
    } else if (!play.game) {
      play.open("");
    }
  };
  addEventListener("hashchange", route);
  route();
}

main().catch(report);
