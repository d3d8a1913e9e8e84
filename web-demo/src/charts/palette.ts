/**
 * One colour for each part, the same in every chart of the page and of a notebook. The hues are those
 * of Okabe and Ito (2008), which stay apart for the colour-blind; kin share a hue and differ in
 * lightness: what rests is blue, what comes and goes warm or green, communication orange to red. The
 * colours themselves are in the stylesheet, for light and dark.
 */
import palette from "./palette.json";

const TONES: Record<string, string> = palette.parts;

/** The tone of a part; one that is new to the page takes one of the spare tones by its name. */
export function tone(name: string): string {
  const known = TONES[name];
  if (known !== undefined) return known;
  const sum = [...name].reduce((total, letter) => total + letter.charCodeAt(0), 0);
  return palette.spare[sum % palette.spare.length] ?? "grey";
}
