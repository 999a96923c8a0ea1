// The page's texts, in English and German, by key; the test TestStrings holds both to the same keys and values. A text may have
// parts that change: "{n} of {all} moves".

export const texts = {
  en: {
    "language.name": "Language",
  },
  de: {
    "language.name": "Sprache",
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
