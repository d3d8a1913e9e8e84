/**
 * One colour for each part, the same in every chart. The hues are those of Okabe and Ito (2008),
 * which stay apart for the colour-blind; kin share a hue and differ in lightness. The colours
 * themselves are in the stylesheet, for light and dark.
 */
const TONES: Record<string, string> = {
  // What rests: blues.
  parameters: "blue",
  "gathered parameters": "sky",
  "master weights": "navy",
  "optimizer states": "sky",
  EMA: "navy",
  "cast weights": "blue-pale",
  "framework buffers": "grey",
  // What comes and goes.
  gradients: "orange",
  "gradient reduction": "vermilion",
  "saved activations": "green",
  "backward of one layer": "green-deep",
  "logits and loss": "purple",
  "optimizer temporaries": "yellow",
  batch: "grey",
  // Beside the tensors.
  "cached by the allocator": "grey-pale",
  "context and libraries": "grey",
  communicators: "grey-deep",
  // The step.
  "forward matmul": "blue",
  "forward attention": "navy",
  "forward memory-bound": "blue-pale",
  "backward matmul": "green",
  "backward attention": "green-deep",
  "backward memory-bound": "green-pale",
  recompute: "purple",
  casts: "purple-pale",
  dequantise: "purple-pale",
  "kernel gaps": "grey",
  host: "grey-deep",
  contention: "grey-deep",
  "tensor parallel": "vermilion",
  "context parallel": "vermilion",
  "expert parallel": "orange",
  "sharded parameters": "orange",
  "data parallel": "vermilion",
  "pipeline sends": "orange",
  "pipeline bubble": "grey-pale",
  "gradient accumulation": "yellow",
  optimizer: "sky",
  offload: "sky",
  input: "yellow",
  straggler: "grey-deep",
  // The run.
  training: "blue",
  stalled: "grey",
  saving: "yellow",
  redone: "vermilion",
  "retried saves": "orange",
  waiting: "grey-pale",
  provisioning: "grey-deep",
  egress: "purple",
  storage: "purple-pale",
  people: "green",
  evaluations: "green-pale",
  "failed starts": "green-deep",
};

const OTHERS = ["purple-pale", "green-pale", "blue-pale", "yellow", "grey-deep"];

/** The tone of a part; one that is new to the page takes one of the spare tones by its name. */
export function tone(name: string): string {
  const known = TONES[name];
  if (known !== undefined) return known;
  const sum = [...name].reduce((total, letter) => total + letter.charCodeAt(0), 0);
  return OTHERS[sum % OTHERS.length] ?? "grey";
}
