// The page's texts, in English and German, by key; the test TestStrings holds both to the same keys and values. A text may have
// parts that change: "{n} of {all} moves".

export const texts = {
  en: {
    "language.name": "Language",

    // Review.
    "review.name": "Review",
    "review.this": "Review this game",
    "review.paste": "A game to review",
    "review.ask": "Review",
    "review.help": "Its moves by columns, such as 4455, with other rules before them, such as 9x5x4:4455; a link to this page; or a replay of Kaggle's connectx (env.toJSON()).",
    "review.working": "The game is being solved, from its end to its beginning ..",
    "review.busy": "The server is busy; the game is reviewed as soon as it can be.",
    "review.summary": "{moves} moves reviewed. Mistakes: Red {red}, Yellow {yellow}.",
    "review.summary.open": "Not proved whether they keep the result: {n}.",
    "review.start": "Start",
    "review.red": "Red",
    "review.yellow": "Yellow",
    "review.empty": "empty",
    "review.letter.red": "R",
    "review.letter.yellow": "Y",
    "review.steps": "Moves",
    "review.first": "To the start",
    "review.back": "One move back",
    "review.on": "One move on",
    "review.last": "To the end",
    "review.before": "Previous mistake",
    "review.next": "Next mistake",
    "review.threats": "R and Y: cells in which Red or Yellow would complete a line.",
    "review.what": "The move",
    "review.why": "Why",
    "review.why.working": "Looking for the reason ..",
    "review.show.after": "What follows",
    "review.show.instead": "The better line",
    "review.leave": "Back to the game",
    "review.retry": "Try it again from here",
    "review.course": "Course of the game",
    "review.graph.help": "Filled dots on a solid line are proved. Hollow diamonds on a dashed line are the search's opinion, between the bounds that are proved. Triangles are mistakes.",
    "review.graph": "Results over the game. At the end: {result} Mistakes: {mistakes}",
    "review.nomistakes": "none.",
    "review.graph.red": "Red wins",
    "review.graph.draw": "Draw",
    "review.graph.yellow": "Yellow wins",
    "review.accuracy": "Accuracy",
    "review.phase": "Part",
    "review.of": "{kept} of {critical}",
    "review.phase.opening": "Opening",
    "review.phase.middle": "Middle",
    "review.phase.end": "End",
    "review.phase.whole": "Game",
    "review.accuracy.means": "Of a side's moves that could have given a win or a draw away, the share that did not; each phase is a third of the board's cells.",
    "review.accuracy.slower": "Moves that only lost time, by a slower win or a sooner loss: Red {red}, Yellow {yellow}.",
    "review.accuracy.open": "Not counted, because it is not proved: {n}.",
    "review.keys.title": "Keys",
    "review.keys": "Within the review: left and right arrow for one move, Home and End; N or Shift + right arrow for the next mistake, P or Shift + left arrow for the one before; W shows what follows, B the better line, Escape leaves it.",
    "review.caption": "Move {n}: {side} plays {name}",
    "review.line.after": "What follows move {move}: {moves}",
    "review.line.instead": "Better than move {move}: {moves}",
    "review.board.column": "Column {n}, from the bottom: {stones}",
    "review.board.row": "Row {n}: {stones}",
    "review.board.threats": "{side} would complete a line in {cells}",
    "review.cell": "column {column}, row {row}",
    "review.short.win-draw": "win → draw",
    "review.short.win-loss": "win → loss",
    "review.short.draw-loss": "draw → loss",
    "review.short.slower": "{n} slower",
    "review.short.sooner": "{n} sooner",
    "review.short.worse": "worse",
    "review.short.kept": "not proved",
    "review.short.unproved": "not proved",
    "review.mark.best": "It gives nothing away.",
    "review.mark.win-draw": "It turns a win into a draw.",
    "review.mark.win-loss": "It turns a win into a loss.",
    "review.mark.draw-loss": "It turns a draw into a loss.",
    "review.mark.slower": "It keeps the win and delays it by {n} moves.",
    "review.mark.slower.one": "It keeps the win and delays it by a move.",
    "review.mark.sooner": "It makes the loss come {n} moves sooner.",
    "review.mark.sooner.one": "It makes the loss come a move sooner.",
    "review.mark.worse": "It gives something away; it is not proved how much.",
    "review.mark.kept": "It keeps the result; it is not proved whether it loses time.",
    "review.mark.unproved": "It is not proved whether it keeps the result.",
    "review.atleast": "at least {n}",
    "review.result.drawn": "The game is drawn.",
    "review.result.won": "{side} has won.",
    "review.result.draw": "Now a draw, if both play their best.",
    "review.result.win": "Now {side} wins; the distance is not proved.",
    "review.result.in": "Now {side} wins in {n} moves.",
    "review.result.in.one": "Now {side} wins with the next move.",
    "review.result.open": "The result is not proved.",
    "review.bound.atleast": "Bound: at least a draw for {side}.",
    "review.opinion": "The search's opinion: {value} for Red, of 100.",
    "review.best": "Best was: {moves}.",
    "review.why.instead": "The better line:",
    "review.why.after": "What follows:",
    "review.end.proved": "The result is proved, but not the moves to its end.",
    "review.end.open": "Not proved to the end.",
    "review.end.draw": "nobody completes a line, and the board fills.",
    "review.end.atonce": "{winner} completes {k} in a row at once, in {last}.",
    "review.end.below": "The move filled the cell below it.",
    "review.end.missed": "The move did not stop that.",
    "review.end.double": "after {n} moves {winner} threatens two cells, {cells}, and {loser} can take only one.",
    "review.end.stacked": "after {n} moves {loser} must take a cell, and {winner} completes {k} in a row in the one above: {cells}.",
    "review.end.zugzwang": "zugzwang after {n} moves: {loser} must play below a cell where {winner} completes {k} in a row: {cells}.",
    "review.end.odd": "{winner}, who moved first, gets the cells of odd rows when the other columns are full.",
    "review.end.even": "{winner} answers each move in the same column, and so gets the cells of even rows (claimeven).",
  },
  de: {
    "language.name": "Sprache",

    // Review.
    "review.name": "Analyse",
    "review.this": "Dieses Spiel analysieren",
    "review.paste": "Ein Spiel, das analysiert werden soll",
    "review.ask": "Analysieren",
    "review.help": "Seine Züge als Spalten, etwa 4455, mit anderen Regeln davor, etwa 9x5x4:4455; ein Link auf diese Seite; oder eine Aufzeichnung von Kaggles connectx (env.toJSON()).",
    "review.working": "Das Spiel wird gelöst, vom Ende zum Anfang ..",
    "review.busy": "Der Server ist ausgelastet; das Spiel wird analysiert, sobald es geht.",
    "review.summary": "{moves} Züge analysiert. Fehler: Rot {red}, Gelb {yellow}.",
    "review.summary.open": "Nicht bewiesen, ob sie das Ergebnis behalten: {n}.",
    "review.start": "Anfang",
    "review.red": "Rot",
    "review.yellow": "Gelb",
    "review.empty": "leer",
    "review.letter.red": "R",
    "review.letter.yellow": "G",
    "review.steps": "Züge",
    "review.first": "Zum Anfang",
    "review.back": "Einen Zug zurück",
    "review.on": "Einen Zug weiter",
    "review.last": "Zum Ende",
    "review.before": "Voriger Fehler",
    "review.next": "Nächster Fehler",
    "review.threats": "R und G: Felder, auf denen Rot oder Gelb eine Reihe vollenden würde.",
    "review.what": "Der Zug",
    "review.why": "Warum",
    "review.why.working": "Der Grund wird gesucht ..",
    "review.show.after": "Was folgt",
    "review.show.instead": "Die bessere Folge",
    "review.leave": "Zurück zum Spiel",
    "review.retry": "Von hier neu versuchen",
    "review.course": "Verlauf des Spiels",
    "review.graph.help": "Gefüllte Punkte auf durchgezogener Linie sind bewiesen. Hohle Rauten auf gestrichelter Linie sind die Meinung der Suche, innerhalb der bewiesenen Schranken. Dreiecke sind Fehler.",
    "review.graph": "Ergebnisse im Verlauf des Spiels. Am Ende: {result} Fehler: {mistakes}",
    "review.nomistakes": "keine.",
    "review.graph.red": "Rot gewinnt",
    "review.graph.draw": "Remis",
    "review.graph.yellow": "Gelb gewinnt",
    "review.accuracy": "Genauigkeit",
    "review.phase": "Teil",
    "review.of": "{kept} von {critical}",
    "review.phase.opening": "Eröffnung",
    "review.phase.middle": "Mitte",
    "review.phase.end": "Ende",
    "review.phase.whole": "Spiel",
    "review.accuracy.means": "Von den Zügen einer Seite, die einen Gewinn oder ein Remis hätten vergeben können, der Anteil derer, die es nicht taten; jeder Abschnitt ist ein Drittel der Felder des Bretts.",
    "review.accuracy.slower": "Züge, die nur Zeit verloren, durch einen späteren Gewinn oder eine frühere Niederlage: Rot {red}, Gelb {yellow}.",
    "review.accuracy.open": "Nicht gezählt, weil es nicht bewiesen ist: {n}.",
    "review.keys.title": "Tasten",
    "review.keys": "In der Analyse: Pfeil nach links und rechts für einen Zug, Pos1 und Ende; N oder Umschalt + Pfeil nach rechts für den nächsten Fehler, P oder Umschalt + Pfeil nach links für den vorigen; W zeigt, was folgt, B die bessere Folge, Escape verlässt sie.",
    "review.caption": "Zug {n}: {side} spielt {name}",
    "review.line.after": "Was auf Zug {move} folgt: {moves}",
    "review.line.instead": "Besser als Zug {move}: {moves}",
    "review.board.column": "Spalte {n}, von unten: {stones}",
    "review.board.row": "Zeile {n}: {stones}",
    "review.board.threats": "{side} würde eine Reihe vollenden auf {cells}",
    "review.cell": "Spalte {column}, Zeile {row}",
    "review.short.win-draw": "Gewinn → Remis",
    "review.short.win-loss": "Gewinn → Verlust",
    "review.short.draw-loss": "Remis → Verlust",
    "review.short.slower": "{n} später",
    "review.short.sooner": "{n} früher",
    "review.short.worse": "schlechter",
    "review.short.kept": "unbewiesen",
    "review.short.unproved": "unbewiesen",
    "review.mark.best": "Er vergibt nichts.",
    "review.mark.win-draw": "Er macht aus einem Gewinn ein Remis.",
    "review.mark.win-loss": "Er macht aus einem Gewinn einen Verlust.",
    "review.mark.draw-loss": "Er macht aus einem Remis einen Verlust.",
    "review.mark.slower": "Er behält den Gewinn und verzögert ihn um {n} Züge.",
    "review.mark.slower.one": "Er behält den Gewinn und verzögert ihn um einen Zug.",
    "review.mark.sooner": "Durch ihn kommt der Verlust {n} Züge früher.",
    "review.mark.sooner.one": "Durch ihn kommt der Verlust einen Zug früher.",
    "review.mark.worse": "Er vergibt etwas; wie viel, ist nicht bewiesen.",
    "review.mark.kept": "Er behält das Ergebnis; ob er Zeit verliert, ist nicht bewiesen.",
    "review.mark.unproved": "Ob er das Ergebnis behält, ist nicht bewiesen.",
    "review.atleast": "mindestens {n}",
    "review.result.drawn": "Das Spiel ist remis.",
    "review.result.won": "{side} hat gewonnen.",
    "review.result.draw": "Nun ein Remis, wenn beide bestmöglich spielen.",
    "review.result.win": "Nun gewinnt {side}; wie bald, ist nicht bewiesen.",
    "review.result.in": "Nun gewinnt {side} in {n} Zügen.",
    "review.result.in.one": "Nun gewinnt {side} mit dem nächsten Zug.",
    "review.result.open": "Das Ergebnis ist nicht bewiesen.",
    "review.bound.atleast": "Schranke: mindestens ein Remis für {side}.",
    "review.opinion": "Die Meinung der Suche: {value} für Rot, von 100.",
    "review.best": "Am besten war: {moves}.",
    "review.why.instead": "Die bessere Folge:",
    "review.why.after": "Was folgt:",
    "review.end.proved": "Das Ergebnis ist bewiesen, aber nicht die Züge bis zum Ende.",
    "review.end.open": "Nicht bis zum Ende bewiesen.",
    "review.end.draw": "Niemand vollendet eine Reihe, und das Brett wird voll.",
    "review.end.atonce": "{winner} vollendet sofort {k} in einer Reihe, auf {last}.",
    "review.end.below": "Der Zug füllte das Feld darunter.",
    "review.end.missed": "Der Zug verhinderte das nicht.",
    "review.end.double": "Nach {n} Zügen droht {winner} auf zwei Feldern, {cells}, und {loser} kann nur eines besetzen.",
    "review.end.stacked": "Nach {n} Zügen muss {loser} ein Feld besetzen, und {winner} vollendet {k} in einer Reihe auf dem darüber: {cells}.",
    "review.end.zugzwang": "Zugzwang nach {n} Zügen: {loser} muss unter ein Feld spielen, auf dem {winner} {k} in einer Reihe vollendet: {cells}.",
    "review.end.odd": "{winner} hat angefangen und bekommt die Felder der ungeraden Zeilen, wenn die anderen Spalten voll sind.",
    "review.end.even": "{winner} antwortet auf jeden Zug in derselben Spalte und bekommt so die Felder der geraden Zeilen (Claimeven).",
  },
};

export const languages = { en: "English", de: "Deutsch" };

// language is the visitor's choice, or else the browser's language, or else English.
export const language = (() => {
  const wanted = [remembered(), ...navigator.languages.map((name) => name.slice(0, 2))];
  return wanted.find((name) => Object.hasOwn(texts, name)) ?? "en";
})();

function remembered() {
  try {
    return localStorage.getItem("evald.language");
  } catch {
    return null; // a browser may keep nothing
  }
}

// speak changes the language, which needs a new page.
export function speak(name) {
  try {
    localStorage.setItem("evald.language", name);
  } finally {
    location.reload();
  }
}

// say returns a text in the visitor's language, with values in place of its {parts}.
export function say(key, values = {}) {
  return texts[language][key].replace(/\{(\w+)\}/g, (_, part) => values[part]);
}

// translate writes the texts of the page's own elements: data-say is the key of an element's text, data-say-label that of its
// label for screen readers.
export function translate() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-say]")) {
    element.textContent = say(element.dataset.say);
  }
  for (const element of document.querySelectorAll("[data-say-label]")) {
    element.setAttribute("aria-label", say(element.dataset.sayLabel));
  }
}
