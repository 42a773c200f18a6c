// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Table } from "../src/data";
import { parting, place } from "../src/pages/compare";
import { Text } from "../src/parts";
import { chosen, link, parse } from "../src/route";
import { shade, Tokens } from "../src/tokens";
import type { Episode, StoredResponse } from "../src/types";

let box: HTMLElement;
beforeEach(() => document.body.replaceChildren((box = document.createElement("div"))));
afterEach(() => vi.unstubAllGlobals());

const NASTY = "<script>alert(1)</script><img src=x onerror=alert(1)>";

it("shows text as text", () => {
  act(() => render(<Text>{NASTY}</Text>, box));
  expect(box.querySelector("script, img")).toBeNull();
  expect(box.textContent).toBe(NASTY);
});

it("cuts a megabyte until somebody asks for it", () => {
  act(() => render(<Text>{"x".repeat(1_000_000)}</Text>, box));
  expect(box.textContent!.length).toBeLessThan(10_000);
  act(() => box.querySelector("button")!.click());
  expect(box.textContent!.length).toBe(1_000_000);
});

const RESPONSE: StoredResponse = {
  sample: "s", episode: "e", turn: 1, update: 3, version: 2, prompt: "p", token_texts: ["a", NASTY, "c"], mask: [1, 1, 0],
  student: [-0.1, -0.2, 0], teacher: [-2.1, -0.1, 0], advantages: [-2, 0.1, 0],
};

it("colours tokens by advantage, marks inserted ones and says both log-probs", () => {
  act(() => render(<Tokens response={RESPONSE} />, box));
  const tokens = [...box.querySelectorAll<HTMLElement>("[data-place]")];
  expect(tokens[0]!.style.background).toContain("214");
  expect(tokens[1]!.style.background).toContain("38");
  expect(tokens[2]!.className).toBe("inserted");
  act(() => void tokens[0]!.dispatchEvent(new MouseEvent("mouseover", { bubbles: true })));
  expect(box.querySelector(".token")!.textContent).toMatch(/student -0\.100 · teacher -2\.100 · advantage -2\.000/);
});

it("reads tokens by arrow keys", () => {
  act(() => render(<Tokens response={RESPONSE} />, box));
  const group = box.querySelector(".text[tabindex]")!;
  for (const key of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight"]) {
    act(() => void group.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })));
  }
  expect(box.querySelector(".token")!.textContent).toContain("inserted");
});

it("shades by sign and strength", () => {
  expect(shade(0)).toBe("");
  expect(shade(null)).toBe("");
  expect(shade(-9)).toBe(shade(-2));
});

it("keeps everything that a page shows in its address", () => {
  const { page, at } = parse(link("episodes", { run: 2, text: "a&b=c #", kind: "" }));
  expect(page).toBe("episodes");
  expect(Object.fromEntries(at)).toEqual({ run: "2", text: "a&b=c #" });
  expect(chosen(new URLSearchParams("runs=1,99,x"), 3)).toEqual([1]);
  expect(chosen(new URLSearchParams(), 30)).toHaveLength(6);
  expect(place("1.episodes.5", 2)).toEqual({ run: 1, kind: "episodes", row: 5 });
  expect(place("2.episodes.5", 2)).toBeNull();
  expect(place("0.../../etc.5", 2)).toBeNull();
});

it("finds where two episodes part", () => {
  const of = (...actions: string[]) => ({ turns: actions.map((action) => ({ observation: "o", action })) }) as unknown as Episode;
  expect(parting(of("a", "b"), of("a", "c"))).toBe(2);
  expect(parting(of("a"), of("a", "b"))).toBe(2);
  expect(parting(of("a"), of("a"))).toBe(0);
});

it("reads a table on as its file grows, and again from its start when the file was cut", async () => {
  const answers = [
    { generation: 1, from: 0, total: 2, behind: 9, columns: ["a"], rows: [[1], { unreadable: "no" }] },
    { generation: 1, from: 2, total: 3, behind: 0, columns: ["a"], rows: [[2]] },
    { generation: 2, from: 0, total: 1, behind: 0, columns: ["a"], rows: [[7]] },
  ];
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (path: string) => {
    asked.push(path);
    return { ok: true, json: async () => answers[asked.length - 1] };
  });
  const table = new Table<{ row: number; a: number }>(0, "episodes");
  await table.advance();
  expect([table.complete, table.unreadable.length]).toEqual([false, 1]);
  await table.advance();
  expect(table.items).toEqual([{ row: 0, a: 1 }, { row: 2, a: 2 }]);
  expect(table.complete).toBe(true);
  await table.advance();
  expect(table.items).toEqual([{ row: 0, a: 7 }]);
  expect(asked[1]).toContain("from=2");
});
