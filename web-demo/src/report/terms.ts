/** A figure opened: the terms it is the sum of, each with formula and source. */
import { bar } from "../charts/bar";
import { h, swap } from "../dom";

/** What any of the core's sums looks like, whatever its quantity. */
export interface Sum {
  total: number;
  terms: { name: string; amount: number; formula: string; source: string }[];
}

export interface Opened {
  title: string;
  /** The figure in one line, with its unit. */
  figure: string;
  sum?: Sum;
  format?: (amount: number) => string;
  /** Part to point at. */
  chosen?: string;
  /** What else a reader should know: interval, price and date, what was assumed. */
  notes: (string | [string, string])[];
}

export interface TermsDialog {
  element: HTMLDialogElement;
  open(it: Opened, opener: HTMLElement): void;
}

export function termsDialog(): TermsDialog {
  const content = h("div", { class: "opened" });
  const element = h(
    "dialog",
    { "aria-labelledby": "opened-title" },
    h("form", { method: "dialog" }, h("button", { class: "close", "aria-label": "Close" }, "Close")),
    content,
  );
  element.addEventListener("click", (e) => {
    if (e.target === element) element.close();
  });
  let back: HTMLElement | undefined;
  element.addEventListener("close", () => {
    const key = back?.dataset.key;
    const target = back?.isConnected
      ? back
      : key
        ? document.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)
        : undefined;
    target?.focus({ preventScroll: true });
  });
  return {
    element,
    open(it, opener) {
      back = opener;
      swap(content, ...opened(it));
      element.showModal();
      element.scrollTop = 0;
    },
  };
}

function opened({ title, figure, sum, format = String, chosen, notes }: Opened): (Node | null)[] {
  return [
    h("h2", { id: "opened-title" }, title),
    h("p", { class: "figure" }, figure),
    sum && sum.terms.length > 1
      ? bar({
          segments: sum.terms,
          scale: sum.total,
          label: `${title}: ${sum.terms.map((t) => `${t.name} ${format(t.amount)}`).join(", ")}`,
          format,
          size: "small",
        })
      : null,
    sum ? table(sum, format, chosen) : null,
    notes.length === 0
      ? null
      : h(
          "dl",
          { class: "notes" },
          ...notes.flatMap((note) => {
            const [term, text] = typeof note === "string" ? ["", note] : note;
            return [h("dt", {}, term), h("dd", {}, linked(text))];
          }),
        ),
  ];
}

function table(sum: Sum, format: (amount: number) => string, chosen: string | undefined): HTMLElement {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Terms" },
    h(
      "table",
      { class: "terms" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ...["Term", "Amount", "Formula", "Source"].map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      h(
        "tbody",
        {},
        ...sum.terms.map((t) =>
          h(
            "tr",
            { class: t.name === chosen ? "chosen" : null, "aria-current": t.name === chosen ? "true" : null },
            h("th", { scope: "row" }, t.name),
            h("td", { class: "number" }, format(t.amount)),
            h("td", { class: "formula" }, t.formula),
            h("td", {}, linked(t.source)),
          ),
        ),
      ),
      sum.terms.length > 1 &&
        h(
          "tfoot",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "row" }, "Sum"),
            h("td", { class: "number" }, format(sum.total)),
            h("td"),
            h("td"),
          ),
        ),
    ),
  );
}

/** A source that is an address can be followed. */
function linked(text: string): Node {
  return /^https:\/\/\S+$/.test(text)
    ? h(
        "a",
        { href: text, rel: "noreferrer noopener", target: "_blank" },
        text.replace(/^https:\/\/(www\.)?/, ""),
      )
    : document.createTextNode(text);
}
