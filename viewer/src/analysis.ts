// From rows and lines to what the pages draw. Nothing here touches the page.

import type { Episode, EpisodeRow, Metric, ResponseRow, Turn, UtilisationLine } from "./types";

export type Point = [number, number];

export interface Series {
  name: string;
  color: string;
  points: Point[];
  dash?: string;
  dots?: boolean;
  faint?: boolean;
}

export type Axis = "time" | "updates";

const PALETTE = ["#2f6fde", "#d9570d", "#16865a", "#a046c6", "#a87900", "#c2344f", "#0c8599", "#6b6f76"];
export const color = (place: number) => PALETTE[place % PALETTE.length]!;

/** One run's numbers as curves, by chart. Batches stand at the version that their rollouts began with. */
export function curves(lines: Metric[], axis: Axis): Record<string, Omit<Series, "color">[]> {
  const at = (line: Metric): number => {
    if (axis === "time") return line.training_seconds;
    if (line.type === "batch") return line.version;
    return line.type === "sft" ? line.step : line.update;
  };
  const curve = (name: string, value: (line: Metric) => number | null | undefined, look: Partial<Series> = {}) => {
    const points: Point[] = [];
    for (const line of lines) {
      const y = value(line);
      if (typeof y === "number" && Number.isFinite(y)) points.push([at(line), y]);
    }
    return { name, points: points.sort((one, other) => one[0] - other[0]), ...look };
  };
  const rate = (part: number, whole: number) => (whole ? (100 * part) / whole : null);
  const batch = (value: (line: Metric & { type: "batch" }) => number | null | undefined) => (line: Metric) =>
    line.type === "batch" ? value(line) : null;
  const update = (value: (line: Metric & { type: "update" }) => number | null | undefined) => (line: Metric) =>
    line.type === "update" ? value(line) : null;
  const student = (line: Metric) => (line.type === "evaluation" && line.who === "student" ? line.success_rate : null);
  const loss = (line: Metric) => (line.type === "update" || line.type === "sft" ? line.loss : null);
  return {
    success: [
      curve("student, evaluated", student, { dots: true }),
      curve("rollouts", batch((line) => rate(line.succeeded, line.episodes)), { faint: true }),
      level("teacher", lines, at),
    ],
    alignment: [
      curve("first action", batch((line) => rate(line.alignment.first_aligned, line.alignment.guided))),
      curve("full trajectory", batch((line) => rate(line.alignment.fully_aligned, line.alignment.guided)), { dash: "6 3" }),
      curve("turns covered", batch((line) => rate(line.alignment.aligned_turns, line.alignment.turns)), { dash: "2 3" }),
    ],
    throughput: [curve("turns per second", batch((line) => (line.seconds ? line.transitions / line.seconds : null)))],
    tokens: [
      curve("full", batch((line) => (line.seconds ? line.full_tokens / line.seconds : null))),
      curve("fast", batch((line) => (line.seconds ? line.fast_tokens / line.seconds : null)), { dash: "2 3" }),
    ],
    queues: [
      curve("waiting", batch((line) => line.student_engine?.waiting)),
      curve("running", batch((line) => line.student_engine?.running), { dash: "6 3" }),
      curve("buffered samples", update((line) => line.ledger.buffered), { dash: "2 3" }),
    ],
    loss: [curve("loss", loss)],
    kl: [curve("reverse KL", update((line) => line.reverse_kl))],
    clip: [curve("clipped tokens", update((line) => (line.clip_fraction === null ? null : 100 * line.clip_fraction)))],
    gradient: [curve("norm", (line) => (line.type === "update" || line.type === "sft" ? line.grad_norm : null))],
    lag: [
      curve("mean", update((line) => line.mean_lag)),
      curve("largest", update((line) => line.max_lag), { dash: "2 3" }),
    ],
  };
}

/** The teacher's success as a level line over the whole run. */
function level(name: string, lines: Metric[], at: (line: Metric) => number): Omit<Series, "color"> {
  const found = lines.find((line) => line.type === "evaluation" && line.who === "teacher");
  if (found?.type !== "evaluation") return { name, points: [] };
  const ends = lines.map(at);
  const first = ends.reduce((one, other) => Math.min(one, other));
  const last = ends.reduce((one, other) => Math.max(one, other));
  return { name, dash: "6 3", faint: true, points: [[first, found.success_rate], [last, found.success_rate]] };
}

/** Cumulative parts of one run, bottom first: seconds by stage, or full responses by what became of them. */
export function stages(lines: Metric[], axis: Axis): Series[] {
  return stack(lines, axis, (line) => line.stages);
}

export function ledger(lines: Metric[], axis: Axis): Series[] {
  return stack(lines, axis, ({ ledger: { trained, buffered, discarded } }) => {
    const gone = Object.entries(discarded).map(([reason, count]) => [`discarded: ${reason}`, count]);
    return { trained, buffered, ...Object.fromEntries(gone) };
  });
}

function stack(lines: Metric[], axis: Axis, parts: (line: Metric & { type: "update" }) => Record<string, number>): Series[] {
  const updates = lines.filter((line) => line.type === "update");
  const names = [...new Set(updates.flatMap((line) => Object.keys(parts(line))))];
  return names.map((name, place) => ({
    name,
    color: color(place),
    points: updates.map((line) => [axis === "time" ? line.training_seconds : line.update, parts(line)[name] ?? 0]),
  }));
}

/** The mean over GPUs, or percent of one core over all parts; what a resumed run took back is left out. */
export function utilisation(lines: UtilisationLine[]): Point[] {
  const sum = (values: number[]) => values.reduce((one, other) => one + other, 0);
  const points: Point[] = [];
  for (const { seconds, gpus, parts } of lines) {
    while (points.length && points.at(-1)![0] >= seconds) points.pop();
    points.push([seconds, gpus.length ? sum(gpus) / gpus.length : sum(Object.values(parts))]);
  }
  return points;
}

/** Fewer points with the same outline: the lowest and the highest of each of `buckets` parts. */
export function thin(points: Point[], buckets: number): Point[] {
  if (points.length <= 2 * buckets) return points;
  const kept: Point[] = [];
  const size = points.length / buckets;
  for (let bucket = 0; bucket < buckets; bucket++) {
    const part = points.slice(Math.floor(bucket * size), Math.floor((bucket + 1) * size));
    if (part.length === 0) continue;
    const low = part.reduce((one, other) => (other[1] < one[1] ? other : one));
    const high = part.reduce((one, other) => (other[1] > one[1] ? other : one));
    kept.push(...(low === high ? [low] : low[0] <= high[0] ? [low, high] : [high, low]));
  }
  return kept;
}

/** Steps that divide minutes and hours evenly. */
export const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Round numbers that divide a range: multiples of one of `steps` where one is large enough. */
export function ticks(low: number, high: number, about: number, steps: number[] = []): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const named = rough >= 1 ? steps.find((size) => size >= rough) : undefined;
  const step = named ?? [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? 10 * power;
  const found: number[] = [];
  for (let count = Math.ceil(low / step - 1e-9); count * step <= high + step * 1e-9; count++) found.push(count * step + 0);
  return found;
}

export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return String(+value.toPrecision(size >= 100 ? 4 : 3));
}

export function duration(seconds: number): string {
  const whole = Math.round(seconds);
  if (seconds === 0) return "0 s";
  if (seconds < 10) return `${seconds.toFixed(seconds < 1 ? 2 : 1)} s`;
  if (whole < 60) return `${whole} s`;
  const pad = (value: number) => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours ? `${hours}:${pad(minutes)} h` : `${minutes}:${pad(whole % 60)} min`;
}

export interface Filter {
  text: string;
  kind: string;
  result: string;
  reason: string;
  turn: string;
  batch: string;
  version: string;
}

export const NO_FILTER: Filter = { text: "", kind: "", result: "", reason: "", turn: "", batch: "", version: "" };

/** `result`: success, failure, error, invalid, repeated. `reason`: of a divergence, "none", or "any". `batch` and
 * `version`: a number or a range as in 3-7. */
export function matches(row: EpisodeRow, filter: Filter): boolean {
  const text = filter.text.toLowerCase();
  if (text && !`${row.task} ${row.id} ${row.error}`.toLowerCase().includes(text)) return false;
  if (filter.kind && row.kind !== filter.kind) return false;
  if (filter.result === "success" && !row.success) return false;
  if (filter.result === "failure" && row.success) return false;
  if (filter.result === "error" && !row.error) return false;
  if (filter.result === "invalid" && !row.invalid.length) return false;
  if (filter.result === "repeated" && !row.repeated.length) return false;
  if (filter.reason === "none" && row.diverged) return false;
  if (filter.reason === "any" && !row.diverged) return false;
  if (filter.reason && !["none", "any"].includes(filter.reason) && row.reason !== filter.reason) return false;
  if (filter.turn && row.diverged !== Number(filter.turn)) return false;
  return within(row.batch, filter.batch) && within(row.version, filter.version);
}

function within(value: number | null, range: string): boolean {
  const found = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(range);
  if (!found) return true;
  const low = Number(found[1]);
  return value !== null && value >= low && value <= Number(found[2] ?? low);
}

export type SortKey = Exclude<keyof EpisodeRow, "invalid" | "repeated" | "guided" | "reference">;

export function sorted(rows: EpisodeRow[], key: SortKey, down: boolean): EpisodeRow[] {
  const sign = down ? -1 : 1;
  const rank = (value: unknown) => (value === null || value === undefined ? -Infinity : value) as number | string;
  return rows.toSorted((one, other) => {
    const [first, second] = [rank(one[key]), rank(other[key])];
    return first === second ? one.row - other.row : first < second ? -sign : sign;
  });
}

export interface Part {
  text: string;
  mark: "same" | "gone" | "new";
}

const LONGEST = 1500;

/** The words of two texts: what only the first has is "gone", what only the second has is "new". Long middles that
 * differ are not searched for common words. */
export function diff(before: string, after: string): Part[] {
  const [one, other] = [words(before), words(after)];
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start++;
  let end = 0;
  while (end < one.length - start && end < other.length - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  const [left, right] = [one.slice(start, one.length - end), other.slice(start, other.length - end)];
  const middle: Part[] =
    left.length * right.length > LONGEST ** 2
      ? [{ text: left.join(""), mark: "gone" }, { text: right.join(""), mark: "new" }]
      : common(left, right);
  const parts: Part[] = [{ text: one.slice(0, start).join(""), mark: "same" }, ...middle];
  parts.push({ text: one.slice(one.length - end).join(""), mark: "same" });
  return parts.filter((part) => part.text).reduce<Part[]>((joined, part) => {
    const last = joined.at(-1);
    if (last?.mark === part.mark) last.text += part.text;
    else joined.push({ ...part });
    return joined;
  }, []);
}

const words = (text: string) => text.match(/\S+\s*|\s+/g) ?? [];

/** By the table of longest common subsequences. */
function common(left: string[], right: string[]): Part[] {
  const width = right.length + 1;
  const table = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      const [below, beside] = [table[(i + 1) * width + j]!, table[i * width + j + 1]!];
      table[i * width + j] = left[i] === right[j] ? table[(i + 1) * width + j + 1]! + 1 : Math.max(below, beside);
    }
  }
  const parts: Part[] = [];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      parts.push({ text: left[i++]!, mark: "same" });
      j++;
    } else if (j >= right.length || (i < left.length && table[(i + 1) * width + j]! >= table[i * width + j + 1]!)) {
      parts.push({ text: left[i++]!, mark: "gone" });
    } else {
      parts.push({ text: right[j++]!, mark: "new" });
    }
  }
  return parts;
}

export interface Bar {
  turn: number;
  start: number;
  end: number;
  kind: string;
  lane: number;
}

/** When each turn and each full response began and ended, in seconds of the episode; bars of a lane do not overlap.
 * Turns without a stored beginning follow each other. */
export function timeline(episode: Episode): { turns: Bar[]; responses: Bar[]; lanes: number; end: number } {
  let now = 0;
  const turns = episode.turns.map((turn) => {
    const start = turn.started ?? now;
    now = start + turn.seconds;
    return { turn: turn.number, start, end: now, kind: turn.source, lane: 0 };
  });
  const free: number[] = [];
  const responses: Bar[] = [];
  const timed = episode.turns.filter(({ response }) => response?.started != null && response.ended != null);
  for (const { number, response } of timed.toSorted((one, other) => one.response!.started! - other.response!.started!)) {
    const { started: start, ended: end } = response as { started: number; ended: number };
    const lane = free.findIndex((ended) => ended <= start);
    const place = lane < 0 ? free.length : lane;
    free[place] = end;
    responses.push({ turn: number, start, end, kind: "response", lane: place });
  }
  return { turns, responses, lanes: free.length, end: Math.max(now, ...free, 1e-6) };
}

/** What the environment said after a turn. */
export const after = (episode: Episode, place: number) =>
  episode.turns[place + 1]?.observation ?? episode.final_observation;

export const left = (turn: Turn) => turn.verdict === "diverged" || turn.verdict === "invalid_proposal";

export interface Trouble {
  reasons: [string, number][];
  worst: ResponseRow[];
  kinds: string[];
  turns: number[];
  /** Shares (0 to 1) by kind and turn number, and how many turns were looked at. */
  cell(what: What, kind: string, turn: number): { share: number; count: number; of: number };
}

export const WHATS = ["diverged", "invalid", "repeated", "kl"] as const;
export type What = (typeof WHATS)[number];

/** Where a run has trouble. Turn numbers above `most` count as `most`. "kl" is a mean, not a share. */
export function trouble(episodes: EpisodeRow[], responses: ResponseRow[], most = 20): Trouble {
  const counts = new Map<string, number>();
  const add = (what: string, kind: string, turn: number, amount = 1) => {
    const key = JSON.stringify([what, kind, Math.min(turn, most)]);
    counts.set(key, (counts.get(key) ?? 0) + amount);
  };
  const reasons = new Map<string, number>();
  const kindOf = new Map<string, string>();
  for (const row of episodes) {
    kindOf.set(row.id, row.kind);
    for (let turn = 1; turn <= row.turns; turn++) {
      add("turns", row.kind, turn);
      if (row.guided && (row.diverged === 0 || turn <= row.diverged)) add("guided", row.kind, turn);
    }
    if (row.diverged) {
      add("diverged", row.kind, row.diverged);
      reasons.set(row.reason, (reasons.get(row.reason) ?? 0) + 1);
    }
    for (const turn of row.invalid) add("invalid", row.kind, turn);
    for (const turn of row.repeated) add("repeated", row.kind, turn);
  }
  const measured = responses.filter((row) => row.kl !== null);
  for (const row of measured) {
    const kind = kindOf.get(row.episode) ?? "";
    add("kl", kind, row.turn, row.kl!);
    add("responses", kind, row.turn);
  }
  const get = (what: string, kind: string, turn: number) => counts.get(JSON.stringify([what, kind, turn])) ?? 0;
  const longest = episodes.reduce((one, row) => Math.min(most, Math.max(one, row.turns)), 0);
  return {
    reasons: [...reasons].sort((one, other) => other[1] - one[1]),
    worst: measured.toSorted((one, other) => other.kl! - one.kl!).slice(0, 25),
    kinds: [...new Set(kindOf.values())].sort(),
    turns: Array.from({ length: longest }, (_, place) => place + 1),
    cell(what, kind, turn) {
      const count = get(what, kind, turn);
      const of = get(what === "kl" ? "responses" : what === "diverged" ? "guided" : "turns", kind, turn);
      return { share: of ? count / of : 0, count, of };
    },
  };
}

/** Text with its control characters made visible; line ends and tabs stay. */
export const visible = (text: string) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (sign) =>
    sign === "\u007f" ? "\u2421" : String.fromCharCode(0x2400 + sign.charCodeAt(0)),
  ).replace(/[\u202a-\u202e\u2066-\u2069]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16)}`);
