// Fields that take a game or a position: as moves, a link, a board, or in any other form that the server reads.
import { patiently, post } from "./api.js";
import { say } from "./strings.js";

const guessed = new Set(); // positions that were given as a board, for which the server has chosen an order of moves

// enter reads the text of a field and calls open with the position as addresses have it, or wrong with an error. The game stays as it is until
// the text is read.
export async function enter(field, open, wrong) {
  const text = field.value.trim();
  field.removeAttribute("aria-invalid");
  try {
    const { position, ordered } = await patiently(() => post("/ui/read", { text }), undefined, () => {});
    if (!ordered) {
      guessed.add(position);
    }
    const before = location.hash;
    open(position, text);
    if (location.hash === before) {
      field.value = position;
    } // else the view writes it
  } catch (e) {
    field.setAttribute("aria-invalid", "true");
    wrong(e);
  }
}

// orderNote says that the order of a position's moves is not the visitor's. It is empty for other positions.
export function orderNote(position) {
  return guessed.has(position) ? say("position.order") : "";
}
