// The visitor's data about puzzles: the rating, the puzzles tried, and mistakes to repeat. They are stored only in the browser. If the browser
// refuses to store them, they last until the page is closed.
import { Store } from "./storage.js";

const key = "evald.puzzles";
const version = 1;
const waits = [1, 3, 7, 21]; // days until a mistake comes back, by the number of right answers since then
const mostMistakes = 5000, mostTried = 50000;
const most = 4 << 20; // maximum number of characters of a file

const fresh = () => ({ version, rating: 1000, right: 0, tried: {}, mistakes: {} });

// tried has the day of the first try by position. mistakes has, by position, the right move, the number of right answers since the mistake, and
// the day on which the mistake comes back.
const data = new Store(key, fresh, checked);

let asked = false; // whether the browser was asked to store the data

// stored returns the data.
export function stored() {
  if (!asked) {
    asked = true;
    data.change(() => {});
  }
  return data.get();
}

// watch calls changed when another tab has changed the data.
export const watch = (changed) => data.watch(changed);

// keeps reports whether the browser stores the data.
export function keeps() {
  return data.kept;
}

// today returns the number of the day in the visitor's time zone. The puzzle of the day is the same for all visitors on the same date.
export function today() {
  const now = new Date();
  return Math.floor(Date.UTC(now.getFullYear(), now.getMonth(), now.getDate()) / 86400000);
}

// remember adds a mistake: its position, such as 7x6x4:4455, and the name of the right move. The position comes back after a day. Other views
// call it, too.
export function remember(position, move) {
  if (goodPosition(position) && goodMove(move)) {
    const day = today() + waits[0];
    data.change(({ mistakes }) => {
      if (position in mistakes || Object.keys(mistakes).length < mostMistakes) {
        mistakes[position] = { move, right: 0, day };
      }
    });
  }
}

// first stores the first try of a puzzle, unless it was tried in another tab meanwhile. It changes the visitor's rating like a game against an
// opponent with the puzzle's rating, and returns the change.
export function first(puzzle, right) {
  const day = today();
  let change = 0;
  data.change((d) => {
    if (puzzle.position in d.tried) {
      return;
    }
    const count = Object.keys(d.tried).length;
    const expected = 1 / (1 + 10 ** ((puzzle.rating - d.rating) / 400));
    change = Math.round((count < 20 ? 40 : 20) * ((right ? 1 : 0) - expected));
    d.rating = bounded(d.rating + change);
    d.right += right ? 1 : 0;
    if (count < mostTried) {
      d.tried[puzzle.position] = day;
    }
  });
  return change;
}

// review stores the answer to a mistake that came back. After each right answer the mistake comes back later, and after the last one never.
export function review(position, right) {
  const now = today();
  data.change(({ mistakes }) => {
    const mistake = mistakes[position];
    if (!mistake) {
      return; // another tab has deleted it
    }
    mistake.right = right ? mistake.right + 1 : 0;
    mistake.day = now + waits[mistake.right];
    if (mistake.right >= waits.length) {
      delete mistakes[position];
    }
  });
}

// due returns the mistakes that come back today or should have come back earlier, the oldest first.
export function due() {
  const now = today();
  return Object.entries(stored().mistakes).filter(([, m]) => m.day <= now).sort(([, a], [, b]) => a.day - b.day).map(([position, m]) => ({ position, move: m.move }));
}

export const clear = () => data.remove();

export function text() {
  return JSON.stringify(stored(), null, 1);
}

// adopt replaces all data by those of a file. It returns false if the file is not valid.
export function adopt(file) {
  try {
    const read = checked(typeof file === "string" && file.length <= most ? JSON.parse(file) : null);
    data.change(() => structuredClone(read));
    return true;
  } catch {
    return false;
  }
}

const bounded = (rating) => Math.min(Math.max(Math.round(rating), 100), 3000);
const goodPosition = (text) => typeof text === "string" && text.length <= 300 && /^\d+x\d+x\d+(free)?:[\w.-]+$/.test(text);
const goodMove = (text) => typeof text === "string" && /^\w{1,3}$/.test(text);
const goodDay = (day) => Number.isInteger(day) && day >= 0 && day < 1e6;
const plain = (x) => typeof x === "object" && x !== null && !Array.isArray(x);

// checked returns a copy of data without invalid entries. It throws if the data are of another form.
function checked(d) {
  if (!plain(d) || d.version !== version || !Number.isFinite(d.rating) || !Number.isInteger(d.right) || d.right < 0 || !plain(d.tried) || !plain(d.mistakes)) {
    throw new TypeError("no data about puzzles");
  }
  const read = fresh();
  read.rating = bounded(d.rating);
  for (const [position, day] of Object.entries(d.tried).slice(0, mostTried)) {
    if (goodPosition(position) && goodDay(day)) {
      read.tried[position] = day;
    }
  }
  read.right = Math.min(d.right, Object.keys(read.tried).length);
  for (const [position, m] of Object.entries(d.mistakes).slice(0, mostMistakes)) {
    if (goodPosition(position) && plain(m) && goodMove(m.move) && Number.isInteger(m.right) && m.right >= 0 && m.right < waits.length && goodDay(m.day)) {
      read.mistakes[position] = { move: m.move, right: m.right, day: m.day };
    }
  }
  return read;
}
