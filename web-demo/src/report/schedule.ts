/** The pipeline's schedule drawn: which rank works on which micro-batch, and where it idles. */
import type { EstimateAnswer } from "shardwise";
import { behind } from "../charts/behind";
import { h, s } from "../dom";
import * as format from "../format";
import { type Piece, timeline, type Work } from "../pipeline";

/** More pieces than this are a texture, not a drawing. */
const MOST_PIECES = 900;

const TONES: Record<Work, [string, string]> = {
  F: ["blue", "sky"],
  B: ["green", "green-deep"],
  W: ["green-pale", "yellow"],
};

const NAMES: Record<Work, string> = {
  F: "forward",
  B: "backward",
  W: "backward of the weights",
};

export function schedule(it: EstimateAnswer): Element[] {
  const { layout, step } = it;
  const { pipeline_parallel: ranks, pipeline_schedule: name, pipeline_chunks: chunks } = layout;
  const micros = it.gradient_accumulation;
  const fitting = Math.floor(MOST_PIECES / (ranks * Math.max(1, chunks) * 2));
  const whole = Math.min(micros, 2 * ranks, Math.max(1, fitting));
  // Interleaving works in rounds of as many micro-batches as ranks.
  const shown = whole > ranks ? whole - (whole % ranks) : whole;
  const sum = (...words: string[]) =>
    step.time.terms
      .filter((t) => words.some((word) => t.name.startsWith(word)))
      .reduce((x, t) => x + t.amount, 0);
  const [forward, products, backward] = [
    sum("forward"),
    sum("backward matmul"),
    sum("backward", "recompute"),
  ];
  const pieces = timeline({
    schedule: name,
    ranks,
    chunks,
    micros: shown,
    times: { F: forward, B: backward - products / 2, W: products / 2 },
  });
  const end = Math.max(...pieces.map((p) => p.end));
  const bubble = step.time.terms.find((t) => t.name === "pipeline bubble")?.amount ?? 0;
  const worked = [...new Set(pieces.map((p) => p.work))];
  return [
    h("h3", {}, "The pipeline"),
    h(
      "p",
      { class: "caption" },
      `The schedule ${name} over ${ranks} stages${chunks > 1 ? ` of ${chunks} chunks` : ""}: ${shown < micros ? `the first ${shown} of ` : ""}${format.count(micros)} micro-batches, drawn to the mean times of forward and backward; a stage idles ${format.seconds(bubble)} of each step.`,
    ),
    draw(pieces, ranks, end, shown, name),
    h(
      "p",
      { class: "key" },
      ...worked.flatMap((work) => [swatch(TONES[work][0]), h("span", {}, NAMES[work])]),
      ...(pieces.some((p) => p.chunk % 2 === 1)
        ? [h("span", {}, "darker or brighter: every second chunk")]
        : []),
    ),
    behind({
      name: "pipeline",
      columns: ["Rank", "Order of work"],
      rows: () =>
        Array.from({ length: ranks }, (_, rank) => [
          String(rank),
          pieces
            .filter((p) => p.rank === rank)
            .sort((a, b) => a.start - b.start)
            .map((p) => `${p.work}${p.micro + 1}${chunks > 1 ? `.${p.chunk + 1}` : ""}`)
            .join(" "),
        ]),
    }),
  ];
}

function draw(pieces: Piece[], ranks: number, end: number, micros: number, name: string): SVGElement {
  const row = ranks > 12 ? 10 : 18;
  const kinds = new Map<string, string>();
  for (const { rank, chunk, work, start, end: to } of pieces) {
    const tone = TONES[work][chunk % 2] ?? "grey";
    const gap = 0.06;
    kinds.set(
      tone,
      `${kinds.get(tone) ?? ""}M${start.toFixed(5)} ${rank + gap}H${to.toFixed(5)}V${rank + 1 - gap}H${start.toFixed(5)}z`,
    );
  }
  const roomy = row > 12 && pieces.every((p) => (p.end - p.start) / end > 0.021);
  return s(
    "svg",
    {
      class: "schedule",
      height: row * ranks,
      role: "img",
      "aria-label": `Schedule ${name}: ${ranks} stages, ${micros} micro-batches; the order of each stage is in the table below`,
    },
    s("rect", { class: "ground", width: "100%", height: "100%" }),
    s(
      "svg",
      {
        viewBox: `0 0 ${end.toFixed(5)} ${ranks}`,
        preserveAspectRatio: "none",
        width: "100%",
        height: "100%",
      },
      ...[...kinds].map(([tone, d]) => s("path", { class: `work tone-${tone}`, d })),
    ),
    ...(roomy
      ? pieces.map((p) =>
          s(
            "text",
            {
              class: `micro micro-${TONES[p.work][p.chunk % 2]}`,
              x: `${((50 * (p.start + p.end)) / end).toFixed(3)}%`,
              y: row * p.rank + row / 2 + 4,
              "text-anchor": "middle",
            },
            String(p.micro + 1),
          ),
        )
      : []),
  );
}

function swatch(tone: string): SVGElement {
  return s(
    "svg",
    { class: "swatch", "aria-hidden": "true" },
    s("rect", { class: `tone-${tone}`, width: "100%", height: "100%" }),
  );
}
