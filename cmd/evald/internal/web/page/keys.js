// Keys that work wherever the focus is, except where they have a meaning of their own: in fields, lists of choices, and on the board.

const own = "input, select, textarea, summary, #board";

// listen calls go(-1) and go(1) for arrows to the left and right, and play with a digit, while shown returns true.
export function listen({ shown, go, play }) {
  document.addEventListener("keydown", (e) => {
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || e.shiftKey || !shown() || e.target.closest?.(own)) {
      return;
    }
    if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
      go(e.key === "ArrowLeft" ? -1 : 1);
    } else if (/^[1-9]$/.test(e.key)) {
      play(e.key);
    } else {
      return;
    }
    e.preventDefault();
  });
}
