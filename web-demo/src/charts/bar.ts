/** Stacked horizontal bars: amounts beside each other on one scale, with a mark for a limit. */
import { h, s } from "../dom";
import { tone } from "./palette";

export interface Segment {
  name: string;
  amount: number;
}

export interface Bar {
  segments: Segment[];
  /** The amount at the right edge. */
  scale: number;
  /** A limit to draw, such as the card's capacity. */
  limit?: number;
  /** What a reader who does not see it is told; empty where the text beside says it. */
  label: string;
  format: (amount: number) => string;
  size?: "large" | "small";
  /** The range in which four of five measurements of the whole fall. */
  interval?: { low: number; high: number };
}

const percent = (part: number): string => `${(100 * part).toFixed(3)}%`;

/** Draws a bar as wide as its place. */
export function bar({ segments, scale, limit, label, format, size = "large", interval }: Bar): SVGSVGElement {
  let at = 0;
  const drawn = segments
    .filter((segment) => segment.amount > 0)
    .map((segment) => {
      const from = at;
      at += segment.amount;
      return s(
        "rect",
        {
          class: `piece tone-${tone(segment.name)}`,
          x: percent(from / scale),
          y: "0",
          width: percent(Math.max(0, segment.amount) / scale),
          height: "100%",
        },
        s("title", {}, `${segment.name}: ${format(segment.amount)}`),
      );
    });
  return s(
    "svg",
    label === ""
      ? { class: `bar bar-${size}`, "aria-hidden": "true", focusable: "false" }
      : { class: `bar bar-${size}`, role: "img", "aria-label": label, focusable: "false" },
    s("rect", {
      class: "ground",
      width: limit === undefined ? "100%" : percent(Math.min(1, limit / scale)),
      height: "100%",
    }),
    ...drawn,
    limit !== undefined &&
      s("line", {
        class: "limit",
        x1: percent(limit / scale),
        x2: percent(limit / scale),
        y1: "0",
        y2: "100%",
      }),
    ...(interval ? whisker(interval.low / scale, interval.high / scale) : []),
  );
}

/** A bracket above the bar; what lies past its end is left out. */
function whisker(low: number, high: number): SVGElement[] {
  const [x1, x2] = [percent(low), percent(Math.min(1, high))];
  const ends = high > 1 ? [x1] : [x1, x2];
  return [
    s("line", { class: "whisker", x1, x2, y1: "-5", y2: "-5" }),
    ...ends.map((x) => s("line", { class: "whisker", x1: x, x2: x, y1: "-8", y2: "-2" })),
  ];
}

/** Round steps that divide a scale into at most `most` parts. */
export function ticks(scale: number, most: number): number[] {
  const rough = scale / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((n) => n * power >= rough) ?? 10) * power;
  return Array.from({ length: Math.floor(scale / step) + 1 }, (_, i) => i * step);
}

/** The axis under a bar: marks at round amounts. */
export function axis(scale: number, unit: number, name: string): SVGSVGElement {
  const marks = ticks(scale / unit, 5);
  return s(
    "svg",
    { class: "axis", "aria-hidden": "true", focusable: "false" },
    ...marks.flatMap((mark, i) => {
      const x = percent((mark * unit) / scale);
      const near = (mark * unit) / scale > 0.93;
      return [
        s("line", { x1: x, x2: x, y1: "0", y2: "4" }),
        s(
          "text",
          { x, y: "16", "text-anchor": i === 0 ? "start" : near ? "end" : "middle" },
          i === 0 ? `${mark} ${name}` : String(Number(mark.toPrecision(3))),
        ),
      ];
    }),
  );
}

export interface LegendRow extends Segment {
  /** Whether the row stands apart: beside the tensors, hidden behind compute. */
  aside?: boolean;
}

/** The rows beside a bar. Each is a button that opens its part, so the chart needs no pointer. */
export function legend(
  rows: LegendRow[],
  total: number,
  format: (amount: number) => string,
  open: (name: string, opener: HTMLElement) => void,
  /** Tells the legends of one page apart. */
  stem = "legend",
): HTMLElement {
  return h(
    "ul",
    { class: "legend" },
    ...rows.map(({ name, amount, aside }) =>
      h(
        "li",
        {},
        h(
          "button",
          {
            type: "button",
            class: aside ? "aside" : null,
            "data-key": `${stem}-${aside ? "aside-" : ""}${name}`,
            "aria-haspopup": "dialog",
            click: (e) => open(name, e.currentTarget as HTMLElement),
          },
          s(
            "svg",
            { class: "swatch", "aria-hidden": "true" },
            s("rect", { class: `tone-${tone(name)}`, width: "100%", height: "100%" }),
          ),
          h("span", { class: "name" }, name),
          h("span", { class: "amount" }, format(amount)),
          h("span", { class: "fraction" }, aside ? "" : `${((100 * amount) / total).toFixed(1)} %`),
        ),
      ),
    ),
  );
}
