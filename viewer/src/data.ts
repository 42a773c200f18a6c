// Where the pages get their data: from the server, or, where they were exported, from scripts beside them.

import { useEffect, useState } from "preact/hooks";
import type { Episode, EpisodeRow, Kind, Metric, ResponseRow, RunInfo, ShownPrompt, StoredResponse, UtilisationLine } from "./types";

const POLL = 2000;

const waiting = new Map<string, (text: string) => void>();
(globalThis as Record<string, unknown>).actfirstPut = (key: string, text: string) => waiting.get(key)?.(text);

export const exported = () =>
  document.querySelector('meta[name="actfirst-data"]')?.getAttribute("content") === "files";

function fromScript(key: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    waiting.set(key, (text) => resolve(JSON.parse(text)));
    script.src = `data/${key}.js`;
    script.onload = () => script.remove();
    script.onerror = () => reject(new Error("This is not part of the exported pages."));
    document.head.append(script);
  });
}

async function ask(key: string, path: string): Promise<unknown> {
  if (exported()) return fromScript(key);
  const answer = await fetch(`api/${path}`);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

interface Answer {
  generation: number;
  from: number;
  total: number;
  behind: number;
  columns: string[];
  rows: (unknown[] | { unreadable: string })[];
}

/** The rows of one file, read on as the file grows. A row that cannot be read is left out and counted. */
export class Table<Row> {
  items: Row[] = [];
  unreadable: string[] = [];
  behind = 0;
  complete = false;
  private received = 0;
  private generation = 1;
  private busy: Promise<boolean> | null = null;

  constructor(
    readonly run: number,
    readonly kind: Kind,
  ) {}

  /** Ask once; true if something has changed. Askers at the same time share one question. */
  advance(): Promise<boolean> {
    this.busy ??= this.ask().finally(() => (this.busy = null));
    return this.busy;
  }

  private async ask(): Promise<boolean> {
    const { run, kind, received, generation } = this;
    const place = `run=${run}&kind=${kind}&from=${received}&generation=${generation}`;
    const answer = (await ask(`rows-${run}-${kind}-${received}`, `rows?${place}`)) as Answer;
    const cut = answer.generation !== generation;
    if (cut) {
      [this.items, this.unreadable, this.generation, this.received] = [[], [], answer.generation, 0];
    }
    const items = answer.rows.length ? [...this.items] : this.items;
    for (const values of answer.rows) {
      const row = this.received++;
      if (Array.isArray(values)) items.push(named<Row>(answer.columns, values, row));
      else this.unreadable.push(values.unreadable);
    }
    const stuck = answer.rows.length === 0 && answer.behind === this.behind;
    const before = this.complete;
    this.complete = this.received >= answer.total && (answer.behind === 0 || stuck);
    this.behind = answer.behind;
    this.items = items;
    return cut || answer.rows.length > 0 || this.complete !== before;
  }
}

function named<Row>(columns: string[], values: unknown[], row: number): Row {
  const found: Record<string, unknown> = { row };
  columns.forEach((name, place) => (found[name] = values[place]));
  return found as Row;
}

const tables = new Map<string, Table<unknown>>();

function table<Row>(run: number, kind: Kind): Table<Row> {
  const key = `${run} ${kind}`;
  if (!tables.has(key)) tables.set(key, new Table(run, kind));
  return tables.get(key) as Table<Row>;
}

interface Rows {
  metrics: { line: Metric };
  utilisation: { line: UtilisationLine };
  episodes: EpisodeRow;
  evaluation: EpisodeRow;
  responses: ResponseRow;
}

/** The tables of several runs, kept up to date while somebody looks. */
export function useTables<K extends Kind>(runs: number[], kind: K): Table<Rows[K]>[] {
  const [, redraw] = useState(0);
  const key = runs.join(",");
  useEffect(() => {
    let over = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    async function follow(): Promise<void> {
      const mine = key === "" ? [] : key.split(",").map((run) => table(Number(run), kind));
      let drawn = performance.now();
      let news = false;
      for (const one of mine) {
        try {
          do {
            news = (await one.advance()) || news;
            if (news && !one.complete && performance.now() - drawn > 300) {
              drawn = performance.now();
              redraw((count) => count + 1);
            }
          } while (!over && !one.complete);
        } catch (error) {
          console.warn("cannot read on:", error);
        }
      }
      if (over) return;
      if (news) redraw((count) => count + 1);
      if (!exported()) timer = setTimeout(follow, POLL);
    }
    void follow();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key, kind]);
  return runs.map((run) => table<Rows[K]>(run, kind));
}

export function useRuns(): { runs: RunInfo[] | null; error: string } {
  const [state, change] = useState<{ runs: RunInfo[] | null; error: string }>({ runs: null, error: "" });
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    let last = "";
    async function follow(): Promise<void> {
      try {
        const runs = (await ask("runs", "runs")) as RunInfo[];
        const text = JSON.stringify(runs);
        if (text !== last) change({ runs, error: "" });
        last = text;
      } catch (error) {
        last = "";
        change((before) => ({ ...before, error: `The viewer does not answer (${message(error)}).` }));
      }
      if (!over && !exported()) timer = setTimeout(follow, POLL);
    }
    void follow();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, []);
  return state;
}

/** One value that is asked for when `key` changes; "" asks for nothing. */
function useAsked<T>(key: string, path: string): { value: T | null; error: string } {
  const [state, change] = useState<{ key: string; value: T | null; error: string }>({ key: "", value: null, error: "" });
  useEffect(() => {
    if (key === "") return;
    let over = false;
    ask(key, path).then(
      (value) => over || change({ key, value: value as T, error: "" }),
      (error) => over || change({ key, value: null, error: message(error) }),
    );
    return () => {
      over = true;
    };
  }, [key]);
  return state.key === key ? state : { value: null, error: "" };
}

function useLine<T>(kind: Kind, run: number, row: number | null): { value: T | null; error: string } {
  const key = row === null ? "" : `line-${run}-${kind}-${row}`;
  return useAsked<T>(key, `line?run=${run}&kind=${kind}&row=${row}`);
}

export const useEpisode = (kind: Kind, run: number, row: number | null) => useLine<Episode>(kind, run, row);
export const useResponse = (run: number, row: number | null) => useLine<StoredResponse>("responses", run, row);

/** The prompts of an episode, asked for when `wanted`: rendering them takes a moment. */
export const usePrompts = (kind: Kind, run: number, row: number, wanted: boolean) =>
  useAsked<ShownPrompt[]>(wanted ? `prompts-${run}-${kind}-${row}` : "", `prompts?run=${run}&kind=${kind}&row=${row}`);

export const message = (error: unknown) => (error instanceof Error ? error.message : String(error));
