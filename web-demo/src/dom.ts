/** Elements in one line each. Styles come from classes and attributes: the policy forbids inline ones. */
export type Child = Node | string | number | null | undefined | false;
export type Attributes = Record<
  string,
  string | number | boolean | null | undefined | ((event: Event) => void)
>;

const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** An HTML element. An attribute that is a function listens to the event of its name. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], attributes, children);
}

/** Replaces what an element holds; the focus stays on the element of the same `data-key`. */
export function swap(container: Element, ...children: Child[]): void {
  const active = document.activeElement as HTMLElement | SVGElement | null;
  const key = active && container.contains(active) ? active.dataset.key : undefined;
  container.replaceChildren();
  fill(container, {}, children);
  if (key !== undefined) {
    container.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  }
}

let last = 0;
/** A fresh id for a label and its control. */
export function id(stem: string): string {
  last += 1;
  return `${stem.replaceAll(/[^a-z0-9]/gi, "-")}-${last}`;
}
