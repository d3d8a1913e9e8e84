/** The figures at a glance. Each is a button that opens its terms. */
import type { Assumption, EstimateAnswer } from "shardwise";
import { h } from "../dom";
import * as format from "../format";
import type { Opened, Sum, TermsDialog } from "./terms";
import { needed } from "./verdict";

interface Figure {
  key: string;
  name: string;
  value: string;
  beside: string;
  opened: Opened;
}

export function figures(it: EstimateAnswer, dialog: TermsDialog): HTMLElement {
  return h(
    "ul",
    { class: "figures" },
    ...all(it).map(({ key, name, value, beside, opened }) =>
      h(
        "li",
        {},
        h(
          "button",
          {
            type: "button",
            "data-key": `figure-${key}`,
            "aria-haspopup": "dialog",
            click: (e) => dialog.open(opened, e.currentTarget as HTMLElement),
          },
          h("span", { class: "name" }, name),
          h("strong", {}, value),
          h("span", { class: "beside" }, beside),
        ),
      ),
    ),
  );
}

/** What was assumed for the fields under these roots. */
function assumed(it: EstimateAnswer, ...roots: string[]): [string, string][] {
  return it.assumptions
    .filter((a: Assumption) => roots.some((root) => a.field.startsWith(root)))
    .map((a) => [`Assumed ${a.field}`, `${a.value}: ${a.why}`]);
}

/** The parts of the device's reading: tensors at the peak, what the process needs, what is only cached. */
export function memoryParts({ memory }: EstimateAnswer): Sum["terms"] {
  const beside = memory.device.terms.filter((t) => t.name !== "allocated");
  const cached = (t: { name: string }) => memory.reserved.terms.some((r) => r.name === t.name);
  return [
    ...(memory.phases[memory.peak]?.allocated.terms ?? []),
    ...beside.filter((t) => !cached(t)),
    ...beside.filter(cached),
  ].filter((t) => t.amount > 0);
}

export function openMemory(it: EstimateAnswer, chosen?: string): Opened {
  const { memory, fit } = it;
  const peak = memory.phases[memory.peak];
  const opened: Opened = {
    title: "Memory of the fullest GPU",
    figure: `${format.bytes(memory.device.total)} on the device, of ${format.bytes(fit.capacity)}`,
    sum: { total: memory.device.total, terms: memoryParts(it) },
    format: format.bytes,
    notes: [
      [
        "80 % interval",
        `${format.bytes(memory.device_interval80.low)} to ${format.bytes(memory.device_interval80.high)}, from the errors on measured runs`,
      ],
      [
        "Allocated",
        `${format.bytes(memory.allocated)} at the peak (${peak?.name ?? ""}), as torch.cuda.max_memory_allocated`,
      ],
      ["Reserved", `${format.bytes(memory.reserved.total)}, as torch.cuda.max_memory_reserved`],
      [
        "Needed",
        `${format.bytes(needed(it))}: what the allocator can give back left out; this decides whether it fits`,
      ],
      ["Pipeline stage", String(memory.stage)],
      ...(memory.host.total > 0
        ? [["Host memory per rank", format.bytes(memory.host.total)] as [string, string]]
        : []),
      ...assumed(it, "recipe", "layout", "cluster.usable"),
    ],
  };
  if (chosen !== undefined) opened.chosen = chosen;
  return opened;
}

export function openStep(it: EstimateAnswer, chosen?: string): Opened {
  const { step } = it;
  const opened: Opened = {
    title: "One optimizer step",
    figure: format.seconds(step.time.total),
    sum: step.time,
    format: format.seconds,
    notes: [
      [
        "80 % interval",
        `${format.seconds(step.interval80.low)} to ${format.seconds(step.interval80.high)}, from the errors on measured runs`,
      ],
      ["Largest beyond compute", step.bottleneck],
      ...step.hidden.terms.map(
        (t) =>
          [`Hidden: ${t.name}`, `${format.seconds(t.amount)} ${t.formula}; not part of the step`] as [
            string,
            string,
          ],
      ),
      ...assumed(it, "recipe.runtime", "cluster"),
    ],
  };
  if (chosen !== undefined) opened.chosen = chosen;
  return opened;
}

function all(it: EstimateAnswer): Figure[] {
  const { step, run, fit, cluster } = it;
  const gpus = cluster.nodes * cluster.gpus_per_node;
  const rate = step.tokens / step.time.total;
  const list: Figure[] = [
    {
      key: "memory",
      name: "Memory per GPU",
      value: format.bytes(needed(it)),
      beside:
        fit.headroom >= 0
          ? `${format.bytes(fit.headroom)} free of ${format.bytes(fit.capacity)}`
          : `${format.bytes(-fit.headroom)} more than ${format.bytes(fit.capacity)}`,
      opened: openMemory(it),
    },
    {
      key: "step",
      name: "Step",
      value: format.seconds(step.time.total),
      beside: `${format.seconds(step.interval80.low)} to ${format.seconds(step.interval80.high)}`,
      opened: openStep(it),
    },
    {
      key: "rate",
      name: "Throughput",
      value: `${format.count(rate)} tokens/s`,
      beside: `${format.count(rate / gpus)} a GPU`,
      opened: {
        title: "Throughput",
        figure: `${format.count(rate)} tokens/s on ${format.count(gpus)} GPUs`,
        notes: [
          ["Formula", `${format.count(step.tokens)} tokens a step / ${format.seconds(step.time.total)}`],
          [
            "Tokens a step",
            `sequence ${format.count(it.seq_len)} × global batch ${format.count(it.global_batch)}`,
          ],
          ["Micro-batches", `${format.count(it.gradient_accumulation)} a rank and step`],
        ],
      },
    },
    {
      key: "mfu",
      name: "MFU",
      value: format.percent(step.mfu),
      beside: `HFU ${format.percent(step.hfu)}`,
      opened: {
        title: "Model FLOPs utilisation",
        figure: format.percent(step.mfu),
        notes: [
          ["Formula", "model FLOPs / (step time × GPUs × dense peak of the compute format)"],
          [
            "Model FLOPs",
            `${format.flops(step.model_flops)} a step; causal attention counted as half, recompute not counted`,
          ],
          [
            "Hardware FLOPs",
            `${format.flops(step.hardware_flops)} a step, recompute included: HFU ${format.percent(step.hfu)}`,
          ],
          ["Source", "Chowdhery 2022 (PaLM), appendix B"],
        ],
      },
    },
  ];
  if (run) {
    list.push({
      key: "run",
      name: "Run",
      value: format.seconds(run.time),
      beside: `${format.count(run.steps)} steps`,
      opened: {
        title: "The whole run",
        figure: `${format.seconds(run.time)} (${format.count(run.time / 3600)} h)`,
        notes: [
          ["Formula", `${format.count(run.steps)} steps × ${format.seconds(step.time.total)}`],
          ["Tokens", format.count(run.tokens)],
        ],
      },
    });
    const { cost, price } = run;
    list.push({
      key: "cost",
      name: "Cost",
      value: cost ? format.usd(cost.total) : "unknown",
      beside: price ? `${format.usdPerHour(price.cluster)}, ${price.kind}` : "no price of that kind",
      opened: {
        title: "Cost of the run",
        figure: cost
          ? format.usd(cost.total)
          : "unknown: the catalogue has no price of that kind for these machines",
        ...(cost ? { sum: cost, format: format.usd } : {}),
        notes: [
          ...(price
            ? ([
                [
                  "Price",
                  `${format.usdPerHour(price.cluster)} for ${format.count(gpus)} GPUs, ${price.kind}`,
                ],
                ["Read", price.as_of],
                ["Source", price.source],
              ] as [string, string][])
            : []),
          ...assumed(it, "cluster.price", "run"),
        ],
      },
    });
  }
  return list;
}
