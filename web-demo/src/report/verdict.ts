/** The answer in one sentence. */
import type { EstimateAnswer, PlanAnswer } from "shardwise";
import * as format from "../format";

export interface Sentence {
  verdict: EstimateAnswer["fit"]["verdict"];
  text: string;
}

const WORDS: Record<EstimateAnswer["fit"]["verdict"], string> = {
  fits: "Fits",
  tight: "Fits, but tightly",
  does_not_fit: "Does not fit",
};

export const MARKS: Record<EstimateAnswer["fit"]["verdict"], string> = {
  fits: "✓",
  tight: "!",
  does_not_fit: "✕",
};

/** Memory that a rank cannot do without. */
export function needed(it: EstimateAnswer): number {
  return it.fit.capacity - it.fit.headroom;
}

/** `plan` is the search the layout comes from; none when the person fixed it. */
export function sentence(it: EstimateAnswer, plan: PlanAnswer | undefined): Sentence {
  const layout = `${it.name}, micro-batch ${it.layout.micro_batch}, recompute ${it.layout.recompute}`;
  const memory = format.ofBytes(needed(it), it.fit.capacity);
  if (it.fit.headroom < 0) {
    const word = it.fit.verdict === "tight" ? "May not fit" : WORDS.does_not_fit;
    const nothing = plan && !plan.feasible ? "Nothing fits. Nearest" : word;
    const change = plan?.nearest_changes[0];
    return {
      verdict: it.fit.verdict,
      text: `${nothing}: ${layout}: ${it.fit.reason}.${change ? ` Would fit with ${change}.` : ""}`,
    };
  }
  const outlook = it.run?.outlook;
  const money = outlook?.ledger ?? it.run?.cost;
  const run = it.run
    ? `${format.seconds(outlook?.time.total ?? it.run.time)}${outlook ? " expected" : ""}${money ? `, about ${format.usd(money.total)}` : ", cost unknown"}`
    : `${format.seconds(it.step.time.total)} a step`;
  return { verdict: it.fit.verdict, text: `${WORDS[it.fit.verdict]}: ${layout}, ${memory}; ${run}.` };
}
