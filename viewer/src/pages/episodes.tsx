// All episodes of a run: filtered and sorted here, drawn only where they are in view.

import { useMemo, useRef, useState } from "preact/hooks";
import { duration, matches, NO_FILTER, sorted, visible, type Filter, type SortKey } from "../analysis";
import { useTables } from "../data";
import { Badge, Choice, Reading, RunChoice, runAt } from "../parts";
import { amend, link } from "../route";
import type { EpisodeRow, RunInfo } from "../types";

const ROW = 32;

const COLUMNS: [SortKey, string, (row: EpisodeRow) => string | number | null, boolean?][] = [
  ["kind", "Kind", (row) => row.kind],
  ["batch", "Batch", (row) => row.batch, true],
  ["version", "Version", (row) => row.version, true],
  ["turns", "Turns", (row) => row.turns, true],
  ["diverged", "Left at turn", (row) => (row.diverged ? row.diverged : row.guided ? "never" : ""), true],
  ["reason", "Why", (row) => row.reason],
  ["score", "Score", (row) => +row.score.toFixed(1), true],
  ["seconds", "Time", (row) => duration(row.seconds), true],
  ["error", "Error", (row) => row.error],
];

export function EpisodesPage({ runs, at }: { runs: RunInfo[]; at: URLSearchParams }) {
  const run = runAt(at, runs);
  const kind = at.get("set") === "evaluation" ? "evaluation" : "episodes";
  const table = useTables([run], kind)[0]!;
  const filter = Object.fromEntries(Object.keys(NO_FILTER).map((key) => [key, at.get(key) ?? ""])) as unknown as Filter;
  const sort = (at.get("sort") ?? "row") as SortKey;
  const down = at.get("down") === "1";
  const key = JSON.stringify([filter, sort, down]);
  const shown = useMemo(
    () => sorted(table.items.filter((row) => matches(row, filter)), sort, down),
    [table.items, key],
  );
  const kinds = useMemo(() => [...new Set(table.items.map((row) => row.kind))].sort(), [table.items]);
  const reasons = useMemo(() => [...new Set(table.items.map((row) => row.reason))].filter(Boolean).sort(), [table.items]);
  const field = (name: keyof Filter, label: string, size: number) => (
    <label>
      {label}
      <input size={size} value={filter[name]} onInput={(event) => amend({ [name]: event.currentTarget.value })} />
    </label>
  );
  return (
    <>
      <h1>Episodes</h1>
      <div class="bar">
        <RunChoice runs={runs} run={run} />
        <Choice label="Of" name="set" value={kind} options={[["episodes", "training"], ["evaluation", "evaluations"]]} />
        {field("text", "Task or id", 18)}
        <Choice label="Kind" name="kind" value={filter.kind} options={[["", "all"], ...kinds]} />
        <Choice label="Outcome" name="result" value={filter.result} options={[["", "all"], "success", "failure", ["error", "cut short"], ["invalid", "invalid actions"], ["repeated", "repetitions"]]} />
        <Choice label="Left the reference" name="reason" value={filter.reason} options={[["", "all"], ["none", "never"], ["any", "at some turn"], ...reasons]} />
        {field("turn", "at turn", 3)}
        {field("batch", "Batch", 5)}
        {field("version", "Version", 5)}
      </div>
      <p>
        <b>{shown.length.toLocaleString("en")}</b> of {table.items.length.toLocaleString("en")} episodes{" "}
        <Reading behind={table.behind} unreadable={table.unreadable} />
        {table.complete && table.items.length === 0 && (
          <span class="empty">{kind === "evaluation" ? "This run stored no episodes of evaluations." : "No episode is written down yet."}</span>
        )}
      </p>
      <Rows rows={shown} run={run} kind={kind} sort={sort} down={down} />
    </>
  );
}

function Rows(props: { rows: EpisodeRow[]; run: number; kind: string; sort: SortKey; down: boolean }) {
  const { rows, sort, down } = props;
  const [top, scroll] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const inView = Math.ceil((box.current?.clientHeight ?? 700) / ROW) + 12;
  const first = Math.min(Math.max(0, Math.floor(top / ROW) - 6), Math.max(0, rows.length - inView));
  const visibleRows = rows.slice(first, first + inView);
  const head = (key: SortKey, label: string, number = false) => (
    <th key={key} scope="col" class={number ? "number" : undefined} aria-sort={sort === key ? (down ? "descending" : "ascending") : "none"}>
      <button class="sort" onClick={() => amend({ sort: key, down: sort === key && !down ? 1 : null })}>
        {label} <span aria-hidden="true">{sort === key ? (down ? "▾" : "▴") : ""}</span>
      </button>
    </th>
  );
  return (
    <div class="scroll table" ref={box} tabIndex={0} role="region" aria-label="Episodes" onScroll={(event) => scroll(event.currentTarget.scrollTop)}>
      <table aria-rowcount={rows.length + 1} class="fixed">
        <thead>
          <tr>
            {head("row", "#", true)}
            {head("task", "Task")}
            {head("success", "Outcome")}
            {COLUMNS.map(([key, label, , number]) => head(key, label, number))}
            {props.kind === "evaluation" && head("update", "Update", true)}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true" style={{ height: `${first * ROW}px` }} />}
          {visibleRows.map((row, place) => (
            <tr key={row.row} aria-rowindex={first + place + 2} class="line">
              <td class="number dim">{row.row}</td>
              <td class="wide">
                <a href={link("episode", { run: props.run, set: props.kind, row: row.row })}>{visible(row.task)}</a>
              </td>
              <td><Badge kind={row.error ? "error" : row.success ? "success" : "failure"}>{row.error ? "cut short" : row.success ? "success" : "failure"}</Badge></td>
              {COLUMNS.map(([key, , text, number]) => (
                <td key={key} class={number ? "number" : undefined}>{visible(String(text(row) ?? ""))}</td>
              ))}
              {props.kind === "evaluation" && <td class="number">{row.who === "teacher" ? "teacher" : row.update}</td>}
            </tr>
          ))}
          {first + inView < rows.length && <tr aria-hidden="true" style={{ height: `${(rows.length - first - inView) * ROW}px` }} />}
        </tbody>
      </table>
    </div>
  );
}
