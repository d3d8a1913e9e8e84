// The conformance cases; README.md says what a runner does with them.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("cases", import.meta.url));

/** Every case: verb, name, request text, kept answer, kept prose or null. */
export const cases = readdirSync(folder)
  .sort()
  .flatMap((verb) =>
    readdirSync(join(folder, verb))
      .filter((file) => file.endsWith(".json") && !file.endsWith(".answer.json"))
      .sort()
      .map((file) => {
        const stem = join(folder, verb, file.slice(0, -".json".length));
        const text = (path) => readFileSync(path, "utf8");
        return {
          verb,
          name: file.slice(0, -".json".length),
          request: text(`${stem}.json`),
          answer: text(`${stem}.answer.json`),
          prose: existsSync(`${stem}.answer.txt`) ? text(`${stem}.answer.txt`) : null,
        };
      }),
  );

/** The refusals of `errors/`: file, line, verb, request text, what is said. */
export const refusals = readdirSync(new URL("errors", import.meta.url))
  .sort()
  .flatMap((file) => {
    const lines = readFileSync(new URL(`errors/${file}`, import.meta.url), "utf8").split("\n");
    return lines.flatMap((line, i) => {
      if (line === "" || line.startsWith("    ")) return [];
      const space = line.indexOf(" ");
      const [verb, request] = [line.slice(0, space), line.slice(space + 1)];
      return [{ file, line: i + 1, verb, request, said: lines[i + 1].slice(4) }];
    });
  });

/** What an answer says, as the files of refusals keep it. */
export function said(answer) {
  const { error } = JSON.parse(answer);
  return error ? `${error.code}: ${error.message}` : "accepted";
}

/** Requests drawn at random, each with the digest of its answer. */
export const drawn = readFileSync(new URL("drawn.txt", import.meta.url), "utf8")
  .trimEnd()
  .split("\n")
  .map((line, i) => {
    const [verb, digest] = line.split(" ", 2);
    return { line: i + 1, verb, digest, request: line.slice(verb.length + digest.length + 2) };
  });

/** The digest of an answer: the first 16 digits of its text's SHA-256. */
export const digest = (answer) =>
  createHash("sha256").update(answer).digest("hex").slice(0, 16);
