// The address and the browser's history of addresses: #7x6x4:4455&red=person&yellow=strong is a game and its players,
// #review=7x6x4:4455 is the review of a game, #service and #training are views.

// parse reads the part after the #: a position or a view, and the players if it names any.
export function parse(hash) {
  const [place, ...rest] = hash.slice(1).split("&");
  const named = new URLSearchParams(rest.join("&"));
  const players = named.get("red") && named.get("yellow") ? { red: named.get("red"), yellow: named.get("yellow") } : null;
  try {
    return { place: decodeURIComponent(place), players };
  } catch {
    return { place, players }; // the server says what is wrong with it
  }
}

export function format(position, players) {
  return `#${position}&${new URLSearchParams(players)}`;
}

// Trail is this page's part of the browser's history. Each entry's state holds the addresses up to it, so they survive a
// reload, and the index of the entry at which its game began.
export class Trail {
  constructor() {
    this.all = []; // addresses, including those ahead of the current one
    this.at = -1;
    this.first = 0; // the entry at which the game began
    this.arrived = () => {};
  }

  // arrive finds out where the browser is now. It returns true if a link was followed, false if the entry existed before.
  arrive() {
    const { trail, first } = history.state ?? {};
    const same = !trail && this.all[this.at] === location.hash; // a link to the current address
    const fresh = !trail && !same;
    if (trail) {
      this.at = trail.length - 1;
      this.first = first;
      if (this.at >= this.all.length) { // the page was reloaded
        this.all = trail;
      }
    } else if (fresh) {
      this.all.splice(++this.at, Infinity, location.hash);
    }
    this.replace(location.hash);
    this.arrived();
    return fresh;
  }

  state() {
    return { trail: this.all.slice(0, this.at + 1), first: this.first };
  }

  // begin marks the current entry as the start of another game.
  begin() {
    this.first = this.at;
  }

  replace(address) {
    this.all[this.at] = address;
    history.replaceState(this.state(), "", address || location.pathname + location.search);
  }

  push(address) {
    this.all.splice(++this.at, Infinity, address);
    history.pushState(this.state(), "", address);
  }

  // find returns the distance to the nearest entry of this game with a position: before the current one if there is one,
  // else after it; 0 if there is none.
  find(position) {
    const steps = this.all.map((address, i) => (i >= this.first && parse(address).place === position ? i - this.at : 0));
    return steps.findLast((by) => by < 0) ?? steps.find((by) => by > 0) ?? 0;
  }

  // go travels by that many entries and waits until it is done; an entry pushed meanwhile would be lost.
  go(by) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, 1000); // a browser may refuse
      this.arrived = () => {
        clearTimeout(timer);
        this.arrived = () => {};
        resolve();
      };
      history.go(by);
    });
  }
}
