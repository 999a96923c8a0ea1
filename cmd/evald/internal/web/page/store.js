// The visitor's data about puzzles: the rating, the puzzles tried, and mistakes to repeat. They are stored only in the browser (localStorage). If
// the browser refuses to store them, they last until the page is closed.

const key = "evald.puzzles";
const version = 1;
const waits = [1, 3, 7, 21]; // days until a mistake comes back, by the number of right answers since then
const mostMistakes = 5000, mostTried = 50000;
const most = 4 << 20; // maximum number of characters of a file

const fresh = () => ({ version, rating: 1000, right: 0, tried: {}, mistakes: {} });

let data = null; // null until it is read
let kept = true; // whether the browser stores the data

// stored returns the data. tried has the day of the first try by position. mistakes has, by position, the right move, the number of right answers
// since the mistake, and the day on which the mistake comes back.
export function stored() {
  if (!data) {
    try {
      data = parse(localStorage.getItem(key)) ?? fresh();
    } catch {
      data = fresh();
    }
    save();
  }
  return data;
}

addEventListener("storage", (e) => { // another tab has changed the data
  if (e.key === key) {
    data = null;
  }
});

// keeps reports whether the browser stores the data.
export function keeps() {
  return kept;
}

function save() {
  try {
    localStorage.setItem(key, JSON.stringify(data));
    kept = true;
  } catch {
    kept = false;
  }
}

// today returns the number of the day in the visitor's time zone. The puzzle of the day is the same for all visitors on the same date.
export function today() {
  const now = new Date();
  return Math.floor(Date.UTC(now.getFullYear(), now.getMonth(), now.getDate()) / 86400000);
}

// remember adds a mistake: its position, such as 7x6x4:4455, and the name of the right move. The position comes back after a day. Other views
// call it, too.
export function remember(position, move) {
  const { mistakes } = stored();
  if (goodPosition(position) && goodMove(move) && (position in mistakes || Object.keys(mistakes).length < mostMistakes)) {
    mistakes[position] = { move, right: 0, day: today() + waits[0] };
    save();
  }
}

// first stores the first try of a puzzle. It changes the visitor's rating like a game against an opponent with the puzzle's rating, and returns
// the change.
export function first(puzzle, right) {
  const d = stored();
  const count = Object.keys(d.tried).length;
  const expected = 1 / (1 + 10 ** ((puzzle.rating - d.rating) / 400));
  const change = Math.round((count < 20 ? 40 : 20) * ((right ? 1 : 0) - expected));
  d.rating = bounded(d.rating + change);
  d.right += right ? 1 : 0;
  if (count < mostTried) {
    d.tried[puzzle.position] = today();
  }
  save();
  return change;
}

// review stores the answer to a mistake that came back. After each right answer the mistake comes back later, and after the last one never.
export function review(position, right) {
  const { mistakes } = stored();
  const mistake = mistakes[position];
  mistake.right = right ? mistake.right + 1 : 0;
  mistake.day = today() + waits[mistake.right];
  if (mistake.right >= waits.length) {
    delete mistakes[position];
  }
  save();
}

// due returns the mistakes that come back today or should have come back earlier, the oldest first.
export function due() {
  const now = today();
  return Object.entries(stored().mistakes).filter(([, m]) => m.day <= now).sort(([, a], [, b]) => a.day - b.day).map(([position, m]) => ({ position, move: m.move }));
}

export function clear() {
  data = fresh();
  try {
    localStorage.removeItem(key);
  } catch {
    // nothing was stored
  }
}

export function text() {
  return JSON.stringify(stored(), null, 1);
}

// adopt replaces all data by those of a file. It returns false if the file is not valid.
export function adopt(file) {
  const read = parse(file);
  if (read) {
    data = read;
    save();
  }
  return read !== null;
}

const bounded = (rating) => Math.min(Math.max(Math.round(rating), 100), 3000);
const goodPosition = (text) => typeof text === "string" && text.length <= 300 && /^\d+x\d+x\d+(free)?:[\w.-]+$/.test(text);
const goodMove = (text) => typeof text === "string" && /^\w{1,3}$/.test(text);
const goodDay = (day) => Number.isInteger(day) && day >= 0 && day < 1e6;
const plain = (x) => typeof x === "object" && x !== null && !Array.isArray(x);

// parse parses the result of text(). It leaves out invalid entries, and returns null for any other text.
function parse(file) {
  let d;
  try {
    d = typeof file === "string" && file.length <= most ? JSON.parse(file) : null;
  } catch {
    return null;
  }
  if (!plain(d) || d.version !== version || !Number.isFinite(d.rating) || !Number.isInteger(d.right) || d.right < 0 || !plain(d.tried) || !plain(d.mistakes)) {
    return null;
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
