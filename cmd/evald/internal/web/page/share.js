// A position as text: a field to go to one, and a link to copy.
import { post } from "./api.js";
import { $, setText } from "./dom.js";
import { say } from "./strings.js";

export function sharing() {
  $("share").addEventListener("click", copy);
  $("moves").addEventListener("keydown", (e) => {
    if (e.key === "Enter") {
      go($("moves").value.trim());
    }
  });
  $("moves").addEventListener("input", () => complain(""));
}

// go opens a position. If it has a mistake, the game stays as it is, and the mistake is named beside the field.
async function go(position) {
  try {
    await post("/ui/game", { position });
  } catch (e) {
    complain(e.message);
    return;
  }
  complain("");
  location.hash = "#" + position;
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
    // Without a secure context there is no clipboard, so the link is put into the field to be copied by hand.
    $("moves").value = link;
    $("moves").select();
  }
}
