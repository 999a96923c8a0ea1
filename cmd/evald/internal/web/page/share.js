// A position as text: a field to go to one, and a link to copy.
import { $, setText } from "./dom.js";

export function sharing() {
  $("share").addEventListener("click", copy);
  $("moves").addEventListener("keydown", (e) => {
    if (e.key === "Enter") {
      location.hash = "#" + $("moves").value.trim();
    }
  });
}

async function copy() {
  const link = location.href;
  try {
    await navigator.clipboard.writeText(link);
    setText($("share"), "Copied");
    setTimeout(() => setText($("share"), "Copy link"), 2000);
  } catch {
    // Without a secure context there is no clipboard, so the link is put into the field to be copied by hand.
    $("moves").value = link;
    $("moves").select();
  }
}
