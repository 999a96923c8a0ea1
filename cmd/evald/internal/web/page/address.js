// The address and the browser's history of it: #7x6x4:4455&red=person&yellow=strong is a game and who plays it, #service
// and #training are views.

// parse reads what stands behind the #: a position or a view, and the players where it names any.
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

// Trail is this page's part of the browser's history. Each entry's state has the addresses up to it, so that they outlive
// a reload, and where its game began.
export class Trail {
  constructor() {
    this.all = []; // addresses, also those ahead of here
    this.at = -1;
    this.first = 0; // the entry with which the game began
    this.arrived = () => {};
  }

  // arrive looks where the browser is now. It is true where a link was followed, false where the entry was here before.
  arrive() {
    const { trail, first } = history.state ?? {};
    const same = !trail && this.all[this.at] === location.hash; // a link to where one is
    const fresh = !trail && !same;
    if (trail) {
      this.at = trail.length - 1;
      this.first = first;
      if (this.at >= this.all.length) { // the page was loaded anew
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

  // begin says that another game begins here.
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

  // find is how many entries off the nearest one of this game with a position is, before this one or else ahead; 0 where
  // there is none.
  find(position) {
    const steps = this.all.map((address, i) => (i >= this.first && parse(address).place === position ? i - this.at : 0));
    return steps.findLast((by) => by < 0) ?? steps.find((by) => by > 0) ?? 0;
  }

  // go travels so many entries and waits for it: what is pushed meanwhile would be lost.
  go(by) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, 1000); // a browser need not do it
      this.arrived = () => {
        clearTimeout(timer);
        this.arrived = () => {};
        resolve();
      };
      history.go(by);
    });
  }
}
