/** The one home of figures as text. The unit is always said; GiB is 2^30 bytes. */
const GIB = 2 ** 30;
const MIB = 2 ** 20;

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A whole number with its thousands set apart. */
export function count(x: number): string {
  return grouped.format(x);
}

/** A count in one glance: 8.03 B, 405 B, 1.2 M. */
export function short(x: number): string {
  for (const [unit, size] of [
    ["T", 1e12],
    ["B", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ] as const) {
    if (x >= size) return `${(x / size).toPrecision(3)} ${unit}`;
  }
  return count(x);
}

export function bytes(x: number): string {
  const size = Math.abs(x);
  if (size >= 1000 * GIB) return `${count(x / GIB)} GiB`;
  if (size >= 0.1 * GIB) return `${(x / GIB).toFixed(2)} GiB`;
  if (size >= 0.1 * MIB) return `${(x / MIB).toFixed(1)} MiB`;
  return `${count(x)} B`;
}

/** The bare figure in GiB, where the unit stands beside it. */
export function gib(x: number): string {
  return (x / GIB).toFixed(1);
}

/** Two amounts of memory of which one is a part of the other: `71.2 of 79.1 GiB`. */
export function ofBytes(part: number, whole: number): string {
  return `${gib(part)} of ${gib(whole)} GiB`;
}

export function seconds(x: number): string {
  const size = Math.abs(x);
  if (size >= 48 * 3600) return `${(x / 86_400).toFixed(1)} days`;
  if (size >= 3600) return `${(x / 3600).toFixed(2)} h`;
  if (size >= 120) return `${(x / 60).toFixed(1)} min`;
  if (size >= 1) return `${x.toFixed(2)} s`;
  if (size >= 1e-3) return `${(x * 1e3).toFixed(1)} ms`;
  return x === 0 ? "0 s" : `${(x * 1e6).toFixed(1)} µs`;
}

/** The unit in which an axis up to so many seconds reads well, and how its marks are written. */
export function timeScale(most: number): { unit: number; name: string; format: (x: number) => string } {
  const [unit, name] = (
    [
      [86_400, "days", 48 * 3600],
      [3600, "h", 3600],
      [60, "min", 120],
      [1, "s", 1],
      [1e-3, "ms", 0],
    ] as const
  ).find(([, , from]) => most >= from) ?? [1, "s"];
  const word = (n: number) => (n === 1 && name === "days" ? "day" : name);
  return {
    unit,
    name,
    format: (x) => {
      const n = Number((x / unit).toPrecision(3));
      return `${n} ${word(n)}`;
    },
  };
}

/** An amount of money on an axis. */
export function usdMark(x: number): string {
  return x >= 1e6 ? `$${short(x)}` : `$${count(x)}`;
}

export function usd(x: number): string {
  return Math.abs(x) >= 1000 ? `$${count(x)}` : `$${x.toFixed(2)}`;
}

/** A price per second as the price per hour that people know. */
export function usdPerHour(x: number): string {
  return `$${(x * 3600).toFixed(2)}/h`;
}

export function flops(x: number): string {
  if (x >= 1e18) return `${x.toExponential(3)} FLOPs`;
  return x >= 1e15 ? `${(x / 1e15).toFixed(2)} PFLOPs` : `${(x / 1e12).toFixed(2)} TFLOPs`;
}

export function percent(x: number): string {
  return `${(100 * x).toFixed(1)} %`;
}

/** A change as a share, with its sign. */
export function signed(x: number): string {
  return `${x < 0 ? "−" : "+"}${(100 * Math.abs(x)).toFixed(1)} %`;
}

export function gbPerSecond(x: number): string {
  return `${count(x / 1e9)} GB/s`;
}
