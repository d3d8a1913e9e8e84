/** The set-up in the words of each face, to take elsewhere. */
import type { EstimateAnswer, PlanAnswer } from "shardwise";
import { accelerate } from "./accelerate";
import * as format from "./format";
import type { Json } from "./request";
import { toJson } from "./schema";
import { isUnder, type State } from "./state";

export interface Sharable {
  /** Address with the whole set-up. */
  link: string;
  verb: "plan" | "estimate";
  request: Json;
  state: State;
  plan: PlanAnswer;
  /** The layout that is shown. */
  shown: EstimateAnswer;
}

export const FORMS: { name: string; text: (it: Sharable) => string }[] = [
  { name: "Link", text: (it) => it.link },
  { name: "JSON", text: (it) => JSON.stringify(it.request, null, 2) },
  { name: "Python", text: python },
  { name: "Command line", text: commandLine },
  { name: "Accelerate", text: (it) => accelerate(it.shown, it.state.get("recipe.compute") || "bf16") },
  { name: "Markdown", text: markdown },
];

function python({ verb, request }: Sharable): string {
  const { model, cluster, ...rest } = request;
  const named = Object.entries(rest).map(([key, value]) => `    ${key}=${literal(value)},`);
  return [
    "import shardwise",
    "",
    `print(shardwise.${verb}(`,
    `    ${literal(model)},`,
    `    ${literal(cluster)},`,
    ...named,
    "))",
  ].join("\n");
}

/** A JSON value as Python writes it. */
function literal(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value as Json)
      .map(([key, inner]) => `${JSON.stringify(key)}: ${literal(inner)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value);
}

/** Options of their own; every other field is reached by `--set`. */
const OPTIONS: Record<string, string> = {
  cluster: "--on",
  seq_len: "--seq-len",
  global_batch: "--global-batch",
  "run.tokens": "--tokens",
};

/** Objects are files to the command line: the line names them and the text below shows them. */
function commandLine({ verb, request, state }: Sharable): string {
  const files: string[] = [];
  const file = (name: string, value: unknown): string => {
    files.push(`# ${name}\n${JSON.stringify(value, null, 1)}`);
    return name;
  };
  const model =
    typeof request.model === "string" ? quoted(request.model) : file("config.json", request.model);
  const words = [`shardwise ${verb} ${model}`];
  if (typeof request.cluster === "object") words.push(`--on ${file("machines.json", request.cluster)}`);
  for (const [path, text] of state) {
    if (path === "model" || isUnder(path, verb === "plan" ? "layout" : "search")) continue;
    const option = OPTIONS[path];
    if (option) words.push(`${option} ${quoted(text)}`);
    else if (!isUnder(path, "cluster")) words.push(`--set ${quoted(`${path}=${plain(toJson(path, text))}`)}`);
  }
  return [words.join(" \\\n  "), ...files].join("\n\n");
}

function plain(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function quoted(text: string): string {
  return /^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function markdown({ plan, link }: Sharable): string {
  const rows = plan.ranked.map((p) => [
    p.name,
    String(p.layout.micro_batch),
    p.layout.recompute,
    format.bytes(plan.best.fit.capacity - p.headroom),
    format.bytes(p.headroom),
    format.seconds(p.step_time),
    format.count(p.tokens_per_second),
    format.percent(p.mfu),
    p.run_time == null ? "" : format.seconds(p.run_time),
    p.cost == null ? "" : format.usd(p.cost),
  ]);
  const head = [
    "strategy",
    "micro-batch",
    "recompute",
    "memory",
    "free",
    "step",
    "tokens/s",
    "MFU",
    "run",
    "cost",
  ];
  const line = (cells: string[]) => `| ${cells.join(" | ")} |`;
  const { best } = plan;
  return [
    `${best.model.name} on ${best.cluster.nodes * best.cluster.gpus_per_node} × ${best.cluster.accelerator}, sequence ${best.seq_len}, global batch ${best.global_batch} ([set-up](${link}))`,
    "",
    line(head),
    line(head.map((_, i) => (i === 0 || i === 2 ? "---" : "---:"))),
    ...rows.map(line),
  ].join("\n");
}
