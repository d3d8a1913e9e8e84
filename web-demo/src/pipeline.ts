/**
 * The order in which the ranks of a pipeline work, to be drawn: the core says what a schedule costs,
 * this only places its micro-batches one after the other as their dependencies allow.
 */
import type { Schedule } from "shardwise";

/** `F` forward, `B` backward of the inputs (and of the weights, where they are not split), `W` of the weights. */
export type Work = "F" | "B" | "W";

export interface Piece {
  rank: number;
  /** Which of the rank's chunks. */
  chunk: number;
  micro: number;
  work: Work;
  start: number;
  end: number;
}

export interface Pipeline {
  schedule: Schedule;
  ranks: number;
  chunks: number;
  micros: number;
  /** Time of one micro-batch on one rank, by work; backward is `B + W`. */
  times: Record<Work, number>;
}

/** Schedules that run the two halves of backward apart. */
const SPLIT: Schedule[] = ["zero_bubble_h1", "zero_bubble_h2", "zero_bubble_v", "dualpipe"];

/** Where a stage lives: the stages of a micro-batch in order, each a rank and a chunk of it. */
type Route = { rank: number; chunk: number }[];

export function timeline(it: Pipeline): Piece[] {
  const { schedule, ranks, micros } = it;
  const split = SPLIT.includes(schedule);
  const routes = routesOf(it);
  const stages = (routes[0]?.length ?? 0) / ranks;
  const length: Record<Work, number> = {
    F: it.times.F / stages,
    B: (split ? it.times.B : it.times.B + it.times.W) / stages,
    W: it.times.W / stages,
  };
  const route = (micro: number): Route => routes[routes.length === 1 || micro < micros / 2 ? 0 : 1] as Route;
  const orders = Array.from({ length: ranks }, (_, rank) => order(it, rank));
  const ends = new Map<string, number>();
  const key = (work: Work, stage: number, micro: number) => `${work}${stage},${micro}`;
  const clocks = new Array<number>(ranks).fill(0);
  const waiting: { stage: number; micro: number }[][] = orders.map(() => []);
  const held = orders.map(() => [0, 0]);
  /** Whether a rank may hold one micro-batch more. */
  const room = (rank: number, chunk: number): boolean => {
    const [first = 0, second = 0] = held[rank] ?? [];
    if (schedule !== "dualpipe") return first + second < inFlight(schedule, ranks);
    return chunk === 0 ? first < ranks - rank : second <= rank;
  };
  const pieces: Piece[] = [];
  const total = micros * route(0).length * (split ? 3 : 2);

  /** When what a piece needs is there; undefined while that is not placed yet. */
  const ready = (work: Work, stage: number, micro: number): number | undefined => {
    if (work === "F") return stage === 0 ? 0 : ends.get(key("F", stage - 1, micro));
    const last = stage === route(micro).length - 1;
    return last ? ends.get(key("F", stage, micro)) : ends.get(key("B", stage + 1, micro));
  };
  const place = (rank: number, work: Work, stage: number, micro: number, from: number) => {
    const end = from + length[work];
    ends.set(key(work, stage, micro), end);
    clocks[rank] = end;
    const chunk = route(micro)[stage]?.chunk ?? 0;
    pieces.push({ rank, chunk, micro, work, start: from, end });
    const own = held[rank] ?? [];
    if (work === "F") own[chunk % 2] = (own[chunk % 2] ?? 0) + 1;
    if (work === "B" && split) waiting[rank]?.push({ stage, micro });
    if (work === (split ? "W" : "B")) own[chunk % 2] = (own[chunk % 2] ?? 0) - 1;
  };
  /** Lets a rank do its next piece; `sure` when nothing that is not placed yet could start earlier. */
  const step = (rank: number, sure: boolean): boolean => {
    const clock = clocks[rank] ?? 0;
    const weights = waiting[rank] ?? [];
    const may = (it: Step) => it.work === "B" || room(rank, route(it.micro)[it.stage]?.chunk ?? 0);
    const next = orders[rank]?.next(
      (it) => (may(it) ? ready(it.work, it.stage, it.micro) : undefined),
      clock,
    );
    const full = next !== undefined && !may(next);
    const at = next && !full ? ready(next.work, next.stage, next.micro) : undefined;
    if (next && at !== undefined && (at <= clock || weights.length === 0)) {
      orders[rank]?.take();
      place(rank, next.work, next.stage, next.micro, Math.max(at, clock));
      return true;
    }
    const spare = weights.shift();
    if (!spare) return false;
    if (!sure && !full && next && at === undefined) {
      weights.unshift(spare);
      return false;
    }
    place(rank, "W", spare.stage, spare.micro, clock);
    return true;
  };
  while (pieces.length < total) {
    const byClock = clocks
      .map((_, rank) => rank)
      .sort((a, b) => (clocks[a] ?? 0) - (clocks[b] ?? 0) || a - b);
    if (!byClock.some((rank, i) => step(rank, i === 0)) && !byClock.some((rank) => step(rank, true))) break;
  }
  return pieces;
}

function routesOf({ schedule, ranks, chunks }: Pipeline): Route[] {
  const down = Array.from({ length: ranks }, (_, rank) => rank);
  const up = [...down].reverse();
  switch (schedule) {
    case "interleaved_1f1b":
      return [Array.from({ length: chunks }, (_, chunk) => down.map((rank) => ({ rank, chunk }))).flat()];
    case "zero_bubble_v":
      return [[...down.map((rank) => ({ rank, chunk: 0 })), ...up.map((rank) => ({ rank, chunk: 1 }))]];
    case "dualpipe":
      return [down.map((rank) => ({ rank, chunk: 0 })), up.map((rank) => ({ rank, chunk: 1 }))];
    default:
      return [down.map((rank) => ({ rank, chunk: 0 }))];
  }
}

/** Chunks of micro-batches that a rank may hold. */
function inFlight(schedule: Schedule, ranks: number): number {
  switch (schedule) {
    case "zero_bubble_h1":
      return ranks;
    case "zero_bubble_h2":
      return 2 * ranks - 1;
    case "zero_bubble_v":
      return 2 * ranks;
    default:
      return Number.POSITIVE_INFINITY;
  }
}

interface Step {
  work: "F" | "B";
  stage: number;
  micro: number;
}

interface Order {
  next(ready: (it: Step) => number | undefined, clock: number): Step | undefined;
  take(): void;
}

/** Narayanan 2021: some forwards first, then one forward and one backward in turn, then the rest. */
function order(it: Pipeline, rank: number): Order {
  const { schedule, ranks, chunks, micros } = it;
  if (schedule === "zero_bubble_v" || schedule === "dualpipe") return freely(it, rank);
  const v = schedule === "interleaved_1f1b" ? chunks : 1;
  const all = micros * v;
  const first = {
    gpipe: all,
    "1f1b": ranks - rank - 1,
    interleaved_1f1b: 2 * (ranks - rank - 1) + (v - 1) * ranks,
    zero_bubble_h1: ranks - rank - 1,
    zero_bubble_h2: 2 * (ranks - rank - 1),
  }[schedule];
  const warm = Math.min(all, first);
  /** The k-th of a rank: rounds of as many micro-batches as ranks, chunk after chunk. */
  const at = (k: number, work: "F" | "B"): Step => {
    const round = Math.floor(k / (ranks * v));
    const width = Math.min(ranks, micros - round * ranks);
    const within = k - round * ranks * v;
    const chunk = v === 1 ? 0 : Math.floor(within / width);
    const micro = v === 1 ? k : round * ranks + (within % width);
    return { work, stage: (work === "F" ? chunk : v - 1 - chunk) * ranks + rank, micro };
  };
  const list: Step[] = Array.from({ length: warm }, (_, k) => at(k, "F"));
  for (let k = warm; k < all; k++) list.push(at(k, "F"), at(k - warm, "B"));
  for (let k = all - warm; k < all; k++) list.push(at(k, "B"));
  let done = 0;
  return { next: () => list[done], take: () => void done++ };
}

/** What is ready first; of several a backward before a forward, a later chunk before an earlier one. */
function freely(it: Pipeline, rank: number): Order {
  const routes = routesOf(it);
  const left: Step[] = [];
  for (let micro = 0; micro < it.micros; micro++) {
    const stages = routes[routes.length === 1 || micro < it.micros / 2 ? 0 : 1] ?? [];
    for (let stage = stages.length - 1; stage >= 0; stage--) {
      if (stages[stage]?.rank !== rank) continue;
      left.push({ work: "B", stage, micro }, { work: "F", stage, micro });
    }
  }
  let chosen = -1;
  return {
    next(ready, clock) {
      let best = Number.POSITIVE_INFINITY;
      chosen = -1;
      left.forEach((it, i) => {
        const at = ready(it);
        if (at === undefined) return;
        const weight = Math.max(at, clock) * 1e6 + (it.work === "B" ? 0 : 1e3) + it.micro;
        if (weight >= best) return;
        best = weight;
        chosen = i;
      });
      return left[chosen];
    },
    take: () => void left.splice(chosen, 1),
  };
}
