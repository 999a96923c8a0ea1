// The page's address and the browser's history. #7x6x4:4455&red=person&yellow=strong is a game and its players, #review=7x6x4:4455&move=3 is
// the review of a game at its third move, #service and #runs are views.

// parse parses the part after the #: a position or a view, the players, null if it names none, and what else follows &.
export function parse(hash) {
  const [place, ...rest] = hash.slice(1).split("&");
  const named = new URLSearchParams(rest.join("&"));
  const players = named.get("red") && named.get("yellow") ? { red: named.get("red"), yellow: named.get("yellow") } : null;
  try {
    return { place: decodeURIComponent(place), players, more: named };
  } catch {
    return { place, players, more: named }; // the server reports the error
  }
}

export function format(position, players) {
  return `#${position}&${new URLSearchParams(players)}`;
}

// Trail is this page's part of the browser's history. The state of each entry has the addresses up to it, so that they survive a reload,
// and the index of the entry at which its game began.
export class Trail {
  constructor() {
    this.all = []; // addresses of all entries, also of those after the current one
    this.at = -1;
    this.first = 0; // index of the entry at which the game began
    this.arrivals = 0;
    this.arrived = () => {};
  }

  // arrive updates the trail after the browser has moved to an entry. It returns true if the entry is new, from a link, else false.
  arrive() {
    this.arrivals++;
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

  // begin marks the current entry as the start of a game.
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

  // find returns the distance to the nearest entry of this game with a position: a negative one if there is such an entry before the
  // current one, else a positive one, or 0 if there is none.
  find(position) {
    const steps = this.all.map((address, i) => (i >= this.first && parse(address).place === position ? i - this.at : 0));
    return steps.findLast((by) => by < 0) ?? steps.find((by) => by > 0) ?? 0;
  }

  // go moves by a number of entries and waits for the browser, because an entry pushed meanwhile would be lost.
  go(by) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, 1000); // a browser may refuse to move
      this.arrived = () => {
        clearTimeout(timer);
        this.arrived = () => {};
        resolve();
      };
      history.go(by);
    });
  }
}
