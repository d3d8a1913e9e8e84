/** Memory of the fullest GPU against the card: at the peak, and through the step. */
import type { EstimateAnswer } from "shardwise";
import { axis, bar, legend } from "../charts/bar";
import { h } from "../dom";
import * as format from "../format";
import { memoryParts, openMemory } from "./figures";
import type { TermsDialog } from "./terms";

const GIB = 2 ** 30;

export function memory(it: EstimateAnswer, dialog: TermsDialog): HTMLElement[] {
  const { memory: report, fit } = it;
  const peak = report.phases[report.peak];
  const parts = memoryParts(it);
  const scale = Math.max(fit.capacity, report.device.total) * 1.02;
  const list = parts.map((t) => `${t.name} ${format.bytes(t.amount)}`).join(", ");
  return [
    h(
      "p",
      { class: "caption" },
      `At the peak, ${peak?.name ?? ""}, on the fullest GPU; the line is the ${format.bytes(fit.capacity)} a framework can use. What the allocator caches it can give back.`,
    ),
    h(
      "div",
      { class: "chart" },
      bar({
        segments: parts,
        scale,
        limit: fit.capacity,
        label: `Memory per GPU: ${format.bytes(report.device.total)} of ${format.bytes(fit.capacity)}: ${list}`,
        format: format.bytes,
      }),
      axis(scale, GIB, "GiB"),
    ),
    legend(parts, report.device.total, format.bytes, (name, opener) =>
      dialog.open(openMemory(it, name), opener),
    ),
    phases(it, scale, dialog),
  ];
}

/** Each instant at which memory can peak, from top to bottom in the order of the step. */
function phases(it: EstimateAnswer, scale: number, dialog: TermsDialog): HTMLElement {
  const { phases: all, peak } = it.memory;
  return h(
    "div",
    { class: "phases" },
    h("h3", {}, "Through the step"),
    h(
      "ol",
      {},
      ...all.map(
        (phase, i) =>
          // An instant at which nothing is alive says nothing.
          phase.allocated.total > 0 &&
          h(
            "li",
            {},
            h(
              "button",
              {
                type: "button",
                class: i === peak ? "peak" : null,
                "data-key": `phase-${phase.name}`,
                "aria-haspopup": "dialog",
                click: (e) =>
                  dialog.open(
                    {
                      title: `Memory at: ${phase.name}`,
                      figure: `${format.bytes(phase.allocated.total)} allocated`,
                      sum: phase.allocated,
                      format: format.bytes,
                      notes: i === peak ? ["This is the peak."] : [],
                    },
                    e.currentTarget as HTMLElement,
                  ),
              },
              h("span", { class: "name" }, phase.name, i === peak ? h("em", {}, " peak") : null),
              bar({
                segments: phase.allocated.terms,
                scale,
                limit: it.fit.capacity,
                label: "",
                format: format.bytes,
                size: "small",
              }),
              h("span", { class: "amount" }, format.bytes(phase.allocated.total)),
            ),
          ),
      ),
    ),
  );
}
