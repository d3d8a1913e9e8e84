/** Copies the set-up in the form that is wanted. */
import { h } from "../dom";
import { FORMS, type Sharable } from "../share";

export function sharePanel(current: () => Sharable | undefined): HTMLElement {
  const text = h("textarea", {
    readonly: true,
    rows: 6,
    "aria-label": "Text to copy",
    hidden: true,
    spellcheck: "false",
  });
  const said = h("span", { class: "said", role: "status" });
  const copy = async (name: string, make: (it: Sharable) => string) => {
    const it = current();
    if (!it) return;
    text.value = make(it);
    text.hidden = false;
    try {
      await navigator.clipboard.writeText(text.value);
      said.textContent = `${name} copied.`;
    } catch {
      // Without leave to use the clipboard the text is there to be copied by hand.
      text.select();
      said.textContent = `${name} is below, selected.`;
    }
  };
  return h(
    "div",
    { class: "share" },
    h(
      "div",
      { class: "row" },
      ...FORMS.map((form) =>
        h(
          "button",
          { type: "button", "data-share": form.name, click: () => void copy(form.name, form.text) },
          form.name,
        ),
      ),
      said,
    ),
    text,
  );
}
