// A field for opening a position, and a link for copying the current one.
import { format, parse } from "./address.js";
import { $, setText } from "./dom.js";
import { enter } from "./position.js";
import { say } from "./strings.js";

export function sharing() {
  $("share").addEventListener("click", copy);
  $("moves").addEventListener("keydown", (e) => {
    if (e.key === "Enter") {
      enter($("moves"), go, (error) => complain(error.message));
    }
  });
  $("moves").addEventListener("input", () => complain(""));
}

// go opens a position; of a link it keeps the players.
function go(position, text) {
  const { players } = parse("#" + text.split("#").at(-1));
  complain("");
  location.hash = players ? format(position, players) : "#" + position;
}

export function complain(text) {
  $("moves").toggleAttribute("aria-invalid", text !== "");
  if (text) {
    $("moves").setAttribute("aria-invalid", "true");
  }
  setText($("moves-problem"), text);
}

async function copy() {
  const link = location.href;
  try {
    await navigator.clipboard.writeText(link);
    setText($("share"), say("share.copied"));
    setTimeout(() => setText($("share"), say("share.copy")), 2000);
  } catch {
    // Without a secure context there is no clipboard, so the link is written into the field, where the visitor can copy it.
    $("moves").value = link;
    $("moves").select();
  }
}
