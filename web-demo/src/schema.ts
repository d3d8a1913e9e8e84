/**
 * The page's view of the request's JSON Schema, which is made from the core's types: labels, help,
 * limits, units and choices of every field come from here and are written nowhere else.
 */
import schema from "virtual:request-schema";

interface Node {
  $ref?: string;
  type?: string | string[];
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  oneOf?: Node[];
  anyOf?: Node[];
  items?: Node;
  properties?: Record<string, Node>;
  minimum?: number;
  maximum?: number;
  examples?: unknown[];
}

export interface Option {
  value: string;
  help: string;
}

/** The text of an object that is asked for with nothing in it said. */
export const PRESENT = "yes";

/** How a field's text is read, and which control it gets. */
export type Kind =
  | "choice"
  | "choices"
  | "flag"
  | "number"
  | "integer"
  | "numbers"
  | "words"
  | "text"
  | "object";

export interface Field {
  path: string;
  label: string;
  help: string;
  unit: string;
  kind: Kind;
  /** The core decides when nothing is said. */
  optional: boolean;
  options: Option[];
  /** The default as text; empty when there is none. */
  default: string;
  minimum?: number;
  maximum?: number;
}

const definitions = schema.$defs as Record<string, Node>;

/** The node with its reference followed; what stands beside a reference wins. */
function follow(node: Node): Node {
  if (node.$ref === undefined) return node;
  const { $ref, ...beside } = node;
  const target = definitions[$ref.slice($ref.lastIndexOf("/") + 1)] ?? {};
  return { ...follow(target), ...beside };
}

/** The node without the alternative `null`, and whether it had one. */
function present(node: Node): { node: Node; optional: boolean } {
  const it = follow(node);
  if (it.anyOf) {
    const some = it.anyOf.filter((n) => n.type !== "null");
    const named = some.find((n) => n.type !== "string") ?? some[0];
    if (named) {
      const { anyOf, ...beside } = it;
      const inner = present(named);
      const optional = some.length < anyOf.length || inner.optional;
      return { node: { ...inner.node, ...beside, ...(some.length > 1 ? { type: "named" } : {}) }, optional };
    }
  }
  if (Array.isArray(it.type)) {
    const some = it.type.filter((t) => t !== "null");
    return { node: { ...it, type: some[0] ?? "string" }, optional: some.length < it.type.length };
  }
  return { node: it, optional: false };
}

function child(node: Node, key: string): Node | undefined {
  const { node: it } = present(node);
  return /^\d+$/.test(key) ? it.items : it.properties?.[key];
}

function at(path: string): Node | undefined {
  return path.split(".").reduce<Node | undefined>((node, key) => node && child(node, key), schema as Node);
}

function options(node: Node): Option[] {
  const it = present(node).node;
  const listed = it.oneOf ?? it.enum?.map((value) => ({ const: value }) as Node) ?? [];
  return listed.flatMap((n) =>
    (n.enum ?? [n.const]).map((value) => ({ value: String(value), help: plain(n.description ?? "") })),
  );
}

function kind(node: Node): Kind {
  if (node.oneOf || node.enum) return "choice";
  switch (node.type) {
    case "boolean":
      return "flag";
    case "integer":
    case "number":
      return node.type;
    case "array": {
      const item = node.items ? present(node.items).node : {};
      if (item.oneOf || item.enum) return "choices";
      if (item.properties) return item.type === "named" ? "words" : "object";
      return item.type === "string" ? "words" : "numbers";
    }
    default:
      return node.properties && node.type !== "named" ? "object" : "text";
  }
}

const SPELLED: Record<string, string> = {
  dtype: "format",
  ema: "EMA",
  gb: "GB",
  gbit: "Gbit",
  gib: "GiB",
  gpus: "GPUs",
  len: "length",
  lora: "LoRA",
  moe: "MoE",
  nics: "NICs",
  nvme: "NVMe",
  params: "parameter",
  qat: "QAT",
  s: "per s",
  seq: "sequence",
  vcpus: "vCPUs",
  w: "W",
};

function label(path: string): string {
  const name =
    path
      .split(".")
      .filter((key) => !/^\d+$/.test(key))
      .at(-1) ?? path;
  const words = name
    .split("_")
    .map((word) => SPELLED[word] ?? word)
    .join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Prose of a doc comment as plain text: its first paragraph, without marks of code. */
function plain(text: string): string {
  return (text.split("\n\n")[0] ?? "").replaceAll("\n", " ").replaceAll("`", "").replace(/\.$/, "");
}

const UNIT = /, in ((?:[KMG]i?B|[KMG]bit|W|USD)(?:\/(?:s|h))?)\b/;

export function field(path: string): Field | undefined {
  const raw = at(path);
  if (!raw) return undefined;
  const { node, optional } = present(raw);
  const help = plain(raw.description ?? node.description ?? "");
  const of = kind(node);
  const it: Field = {
    path,
    label: label(path),
    help,
    unit: UNIT.exec(help)?.[1] ?? "",
    kind: of,
    optional,
    options: of === "choices" && node.items ? options(node.items) : options(node),
    default: text(raw.default ?? node.default),
  };
  if (node.minimum !== undefined && node.minimum > 0) it.minimum = node.minimum;
  if (node.maximum !== undefined) it.maximum = node.maximum;
  return it;
}

function text(value: unknown): string {
  if (value === undefined || value === null) return "";
  return Array.isArray(value) ? value.join(",") : String(value);
}

/** Paths of the fields under a root that a control can hold, in the order of the schema. */
export function fieldsUnder(root: string): string[] {
  const raw = at(root);
  if (!raw) return [];
  const { node } = present(raw);
  if (kind(node) !== "object") return [root];
  return node.type === "array" ? fieldsUnder(`${root}.0`) : fieldsInside(root);
}

/** The same for what may also be given by a name: the fields of the thing in full. */
export function fieldsInside(root: string): string[] {
  const raw = at(root);
  const names = Object.keys((raw && present(raw).node.properties) ?? {});
  return names.flatMap((key) => fieldsUnder(`${root}.${key}`));
}

/** Names that the schema gives as examples: the presets for the model. */
export function examples(path: string): string[] {
  const node = at(path);
  return node ? (follow(node).examples ?? []).map(String) : [];
}

/** The value that a text stands for. What cannot be read stays text, for the core to judge. */
export function toJson(path: string, given: string): unknown {
  const it = field(path);
  const number = (word: string): unknown => {
    const value = Number(word.replaceAll(/[_\s]/g, ""));
    return word.trim() !== "" && Number.isFinite(value) ? value : word;
  };
  const list = (): string[] =>
    given
      .split(",")
      .map((word) => word.trim())
      .filter((word) => word !== "");
  switch (it?.kind) {
    case "flag":
      return given === "true" ? true : given === "false" ? false : given;
    case "integer":
    case "number":
      return number(given);
    case "numbers":
      return list().map(number);
    case "choices":
    case "words":
      return list();
    case "object":
      // An object that is there with all its defaults.
      return it.optional && given === PRESENT ? {} : given;
    default:
      return given;
  }
}
