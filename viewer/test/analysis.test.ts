import { describe, expect, it } from "vitest";
import { curves, diff, duration, ledger, matches, NO_FILTER, SECONDS, sorted, thin, ticks, timeline, trouble, utilisation, visible } from "../src/analysis";
import type { Episode, EpisodeRow, Metric, ResponseRow } from "../src/types";

const row = (changes: Partial<EpisodeRow>): EpisodeRow => ({
  row: 0, id: "b0-0", task: "pocket/1-look", kind: "look", split: "train", batch: 1, version: 2, success: true, score: 100,
  turns: 3, guided: true, reference: 3, diverged: 0, reason: "", error: "", seconds: 1, invalid: [], repeated: [],
  update: null, seed: null, who: null, ...changes,
});

describe("episodes", () => {
  it("filters by task, outcome, divergence and ranges", () => {
    expect(matches(row({}), { ...NO_FILTER, text: "LOOK" })).toBe(true);
    expect(matches(row({}), { ...NO_FILTER, text: "clean" })).toBe(false);
    expect(matches(row({}), { ...NO_FILTER, result: "failure" })).toBe(false);
    expect(matches(row({ diverged: 2, reason: "other observation" }), { ...NO_FILTER, reason: "any" })).toBe(true);
    expect(matches(row({}), { ...NO_FILTER, reason: "any" })).toBe(false);
    expect(matches(row({ batch: 7 }), { ...NO_FILTER, batch: "3-7" })).toBe(true);
    expect(matches(row({ batch: 8 }), { ...NO_FILTER, batch: "3-7" })).toBe(false);
    expect(matches(row({ version: null }), { ...NO_FILTER, version: "1" })).toBe(false);
  });

  it("sorts both ways, equal ones in the order of the file, unknown ones first", () => {
    const rows = [row({ row: 0, turns: 5 }), row({ row: 1, turns: 2 }), row({ row: 2, turns: 5, version: null })];
    expect(sorted(rows, "turns", false).map((one) => one.row)).toEqual([1, 0, 2]);
    expect(sorted(rows, "turns", true).map((one) => one.row)).toEqual([0, 2, 1]);
    expect(sorted(rows, "version", false)[0]!.row).toBe(2);
  });

  it("sorts and filters a hundred thousand", () => {
    const rows = Array.from({ length: 100_000 }, (_, place) => row({ row: place, turns: place % 37, success: place % 2 === 0 }));
    const found = sorted(rows.filter((one) => matches(one, { ...NO_FILTER, result: "success" })), "turns", true);
    expect(found).toHaveLength(50_000);
    expect(found[0]!.turns).toBe(36);
  });
});

describe("differences", () => {
  const only = (before: string, after: string, mark: string) =>
    diff(before, after).filter((part) => part.mark === mark).map((part) => part.text.trim());

  it("marks the words that one side lacks", () => {
    expect(only("you see a red key here", "you see a blue key here", "gone")).toEqual(["red"]);
    expect(only("you see a red key here", "you see a blue key here", "new")).toEqual(["blue"]);
  });

  it("gives both texts back", () => {
    const [before, after] = ["a b  c\nd", "a c\n\nd e"];
    const join = (skip: string) => diff(before, after).filter((part) => part.mark !== skip).map((part) => part.text).join("");
    expect(join("new")).toBe(before);
    expect(join("gone")).toBe(after);
  });

  it("does not search long texts word by word", () => {
    const many = (word: string) => Array.from({ length: 20_000 }, (_, place) => `${word}${place}`).join(" ");
    expect(diff(many("a"), many("b"))).toHaveLength(2);
  });
});

describe("curves", () => {
  const alignment = { guided: 4, first_aligned: 3, fully_aligned: 1, aligned_turns: 5, turns: 10 };
  const lines = [
    { type: "evaluation", who: "teacher", update: 0, training_seconds: 0, success_rate: 95 },
    { type: "evaluation", who: "student", update: 0, training_seconds: 0, success_rate: 10 },
    { type: "batch", batch: 0, version: 0, training_seconds: 5, episodes: 4, succeeded: 2, seconds: 2, transitions: 10, fast_tokens: 8, full_tokens: 20, alignment },
    { type: "update", update: 1, training_seconds: 8, stages: { rollout: 5, update: 3 }, mean_lag: 0, max_lag: 0, loss: null, reverse_kl: 0.5, grad_norm: 1, clip_fraction: 0.25, ledger: { generated: 9, trained: 5, buffered: 3, discarded: { stale: 1 } } },
  ] as Metric[];
  const points = (chart: string, name: string, axis: "time" | "updates" = "time") =>
    curves(lines, axis)[chart]!.find((one) => one.name === name)!.points;

  it("stand at seconds or at updates", () => {
    expect(points("success", "student, evaluated")).toEqual([[0, 10]]);
    expect(points("success", "rollouts")).toEqual([[5, 50]]);
    expect(points("success", "rollouts", "updates")).toEqual([[0, 50]]);
    expect(points("success", "teacher")).toEqual([[0, 95], [8, 95]]);
  });

  it("are rates in percent, and leave out what was not finite", () => {
    expect(points("alignment", "first action")).toEqual([[5, 75]]);
    expect(points("alignment", "turns covered")).toEqual([[5, 50]]);
    expect(points("clip", "clipped tokens")).toEqual([[8, 25]]);
    expect(points("loss", "loss")).toEqual([]);
    expect(points("throughput", "turns per second")).toEqual([[5, 5]]);
  });

  it("show the ledger whole: its parts add up to what was generated", () => {
    expect(ledger(lines, "time").map((one) => one.points[0]![1]).reduce((one, other) => one + other)).toBe(9);
  });

  it("keep their outline when thinned", () => {
    const many = Array.from({ length: 10_000 }, (_, x): [number, number] => [x, x === 5003 ? 99 : Math.sin(x)]);
    const few = thin(many, 100);
    expect(few.length).toBeLessThanOrEqual(200);
    expect(few).toContainEqual([5003, 99]);
  });

  it("forget what a resumed run took back", () => {
    const line = (seconds: number) => ({ seconds, gpus: [], parts: { engine: 50, learner: 30 } });
    expect(utilisation([line(1), line(2), line(3), line(2)]).map(([x]) => x)).toEqual([1, 2]);
  });
});

describe("axes", () => {
  it("have round numbers", () => {
    expect(ticks(0, 100, 4)).toEqual([0, 50, 100]);
    expect(ticks(0, 200, 4, SECONDS)).toEqual([0, 60, 120, 180]);
    expect(ticks(3, 3, 4)).toEqual([3]);
    expect([0, 0.123, 65, 3700].map(duration)).toEqual(["0 s", "0.12 s", "1:05 min", "1:01 h"]);
  });
});

describe("timeline", () => {
  const turn = (number: number, started: number | null, response: object | null) => ({ number, started, seconds: 1, source: "next_action", response });
  const of = (...turns: object[]) => timeline({ turns } as unknown as Episode);

  it("puts responses that overlap into lanes of their own", () => {
    const found = of(turn(1, 0, { started: 0, ended: 2.5 }), turn(2, 1, { started: 1, ended: 1.5 }), turn(3, 2, { started: 2, ended: 4 }));
    expect(found.responses.map((one) => one.lane)).toEqual([0, 1, 1]);
    expect(found.end).toBe(4);
  });

  it("lets turns of older runs follow each other", () => {
    expect(of(turn(1, null, null), turn(2, null, null)).turns.map((one) => one.start)).toEqual([0, 1]);
  });
});

describe("trouble", () => {
  it("counts by kind and turn, and ranks responses by reverse KL", () => {
    const episodes = [row({ id: "a", diverged: 2, reason: "other observation", invalid: [3] }), row({ id: "b" }), row({ id: "c", kind: "heat", turns: 30, guided: false })];
    const response = (episode: string, turn: number, kl: number | null): ResponseRow => ({ row: 0, episode, turn, update: 1, version: 0, kl, worst: kl, tokens: 5 });
    const found = trouble(episodes, [response("a", 1, 0.5), response("b", 1, 1.5), response("b", 2, null)]);
    expect(found.reasons).toEqual([["other observation", 1]]);
    expect(found.cell("diverged", "look", 2)).toEqual({ share: 0.5, count: 1, of: 2 });
    expect(found.cell("invalid", "look", 3).share).toBe(0.5);
    expect(found.cell("kl", "look", 1).share).toBe(1);
    expect(found.worst.map((one) => one.kl)).toEqual([1.5, 0.5]);
    expect(found.turns.at(-1)).toBe(20);
    expect(found.cell("invalid", "heat", 20).of).toBe(11);
  });
});

it("makes control characters and changes of direction visible, and keeps line ends", () => {
  expect(visible("a\u0000b\u001b[31m\n\tc\u202e")).toBe("a␀b␛[31m\n\tc\\u202e");
});
