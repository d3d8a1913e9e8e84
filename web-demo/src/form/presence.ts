/** A part of the request that may be left out whole: a box that puts it there with its defaults. */
import { h, id } from "../dom";
import { field, PRESENT } from "../schema";
import type { Store } from "../state";
import { type Control, faultLine, helpText } from "./control";

/** What ticking each means, in words; the schema's help stands below. */
export const PRESENCE: Record<string, string> = {
  "run.faults": "Reckon with lost machines",
  "run.checkpoint": "Save checkpoints",
  "run.expenses": "Count what is paid besides",
  "run.owned": "Hold against machines of one's own",
  "run.serving": "Reckon what serving costs",
};

export function presence(path: string, store: Store): Control {
  const it = field(path);
  const box = h("input", { type: "checkbox", id: id(path), "data-path": path, "data-value": PRESENT });
  const help = h("span", { class: "help", id: `${box.id}-help` }, it ? helpText(it) : "");
  box.setAttribute("aria-describedby", help.id);
  const line = faultLine();
  box.addEventListener("input", () => {
    if (box.checked) store.set({ [path]: PRESENT });
    else store.clear(path);
  });
  return {
    path,
    element: h(
      "div",
      { class: "field field-flag wide" },
      h("label", { for: box.id }, PRESENCE[path] ?? path),
      h("div", { class: "entry" }, box),
      help,
      line.element,
    ),
    show() {
      box.checked = store.has(path);
    },
    fault: (message) => line.show(message, [box]),
    focus: () => box.focus(),
  };
}
