// Runs: how they go, several on the same axes, live while they train.

import { Chart } from "../chart";
import { color, curves, duration, ledger, SECONDS, stages, utilisation, type Axis, type Series } from "../analysis";
import { useTables, type Table } from "../data";
import { Badge, Text } from "../parts";
import { amend, chosen, link } from "../route";
import type { Metric, RunInfo } from "../types";

const CHARTS: [string, string, string, number?][] = [
  ["success", "Success", "%", 100],
  ["alignment", "Alignment with the reference", "% of rollouts or turns", 100],
  ["throughput", "Turns", "per second of collecting"],
  ["tokens", "Generated tokens", "per second of collecting"],
  ["kl", "Reverse KL", "nats per token"],
  ["loss", "Loss", ""],
  ["clip", "Clipped tokens", "%"],
  ["gradient", "Gradient norm", ""],
  ["lag", "Version lag", "of trained samples"],
  ["queues", "Queues", "when a batch was delivered"],
];

export function RunPage({ runs, at }: { runs: RunInfo[]; at: URLSearchParams }) {
  const picked = chosen(at, runs.length);
  const tables = useTables(picked, "metrics");
  const axis: Axis = at.get("x") === "updates" ? "updates" : "time";
  const lines = tables.map((table) => table.items.map((item) => item.line));
  const all = lines.map((one) => curves(one, axis));
  const focus = picked[0];
  const xText = axis === "time" ? duration : (x: number) => String(+x.toFixed(2));
  const xName = axis === "time" ? "training time" : "update";
  const overlaid = (chart: string): Series[] =>
    all.flatMap((one, place) =>
      (one[chart] ?? []).map((curve, part) => ({
        ...curve,
        name: picked.length > 1 ? `${runs[picked[place]!]!.name}: ${curve.name}` : curve.name,
        color: picked.length > 1 ? color(picked[place]!) : color(curve.name === "teacher" ? 7 : part),
        dash: picked.length > 1 ? curve.dash : curve.faint ? curve.dash : undefined,
      })),
    );
  const busy = useTables(axis === "time" ? picked : [], "utilisation").map(
    (table, place): Series => ({
      name: runs[picked[place]!]!.name,
      color: color(picked.length > 1 ? picked[place]! : 0),
      points: utilisation(table.items.map((item) => item.line)),
    }),
  );
  const whole = { xName, xText, xSteps: axis === "time" ? SECONDS : undefined };
  return (
    <>
      <h1>{runs.length === 1 ? runs[0]!.name : "Runs"}</h1>
      <RunTable runs={runs} picked={picked} tables={tables} />
      {focus !== undefined && <Log run={runs[focus]!} />}
      <div class="bar" role="group" aria-label="Horizontal axis">
        <span>Against</span>
        {(["time", "updates"] as const).map((one) => (
          <button key={one} aria-pressed={axis === one} onClick={() => amend({ x: one })}>
            {one === "time" ? "training time" : "updates"}
          </button>
        ))}
        <span class="dim">drag to zoom, double click for the whole</span>
      </div>
      {!lines.some((one) => one.length) && <p class="empty">Nothing is written down yet: the first figures come with the first batch.</p>}
      <div class="charts">
        {CHARTS.slice(0, 2).map(([key, title, unit, top]) => (
          <Chart key={key} title={title} unit={unit} top={top} series={overlaid(key)} {...whole} />
        ))}
        {focus !== undefined && (
          <>
            <Chart title="Where the time went" unit={of(runs, picked, "seconds since the start, by stage")} series={stages(lines[0] ?? [], axis)} stacked {...whole} />
            <Chart title="Full responses" unit={of(runs, picked, "what became of them")} series={ledger(lines[0] ?? [], axis)} stacked {...whole} />
          </>
        )}
        {CHARTS.slice(2).map(([key, title, unit, top]) => (
          <Chart key={key} title={title} unit={unit} top={top} series={overlaid(key)} {...whole} />
        ))}
        <Chart title="How busy the machine was" unit="% of one core, or of the GPUs" series={busy} {...whole} />
      </div>
    </>
  );
}

const of = (runs: RunInfo[], picked: number[], text: string) =>
  picked.length > 1 ? `${text}; ${runs[picked[0]!]!.name}` : text;

function RunTable({ runs, picked, tables }: { runs: RunInfo[]; picked: number[]; tables: Table<{ line: Metric }>[] }) {
  const toggle = (run: number) => {
    const next = picked.includes(run) ? picked.filter((one) => one !== run) : [...picked, run];
    amend({ runs: next.length ? next.join(",") : "none" });
  };
  return (
    <div class={runs.length > 8 ? "scroll runs" : "runs"} tabIndex={runs.length > 8 ? 0 : undefined}>
      <table>
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">State</th>
            <th scope="col">Method</th>
            <th scope="col">Environment</th>
            <th scope="col" class="number">Seed</th>
            <th scope="col" class="number">Updates</th>
            <th scope="col" class="number">Time</th>
            <th scope="col" class="number">Success</th>
            <th scope="col">Look at</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run, place) => {
            const lines = tables[picked.indexOf(place)]?.items.map((item) => item.line) ?? [];
            const success = lines.filter((line) => line.type === "evaluation" && line.who === "student").map((line) => (line as { success_rate: number }).success_rate);
            const update = lines.findLast((line) => line.type === "update" || line.type === "sft");
            const done = update?.type === "update" ? update.update : update?.type === "sft" ? update.step : null;
            return (
              <tr key={place}>
                <th scope="row">
                  <label class="pick">
                    {runs.length > 1 && <input type="checkbox" checked={picked.includes(place)} onChange={() => toggle(place)} />}
                    {runs.length > 1 && <i class="swatch" style={{ background: picked.includes(place) ? color(place) : "transparent" }} />}
                    {run.name}
                  </label>
                </th>
                <td><Badge kind={run.state}>{run.state}</Badge></td>
                <td>{run.method}</td>
                <td>{run.environment}</td>
                <td class="number">{run.seed}</td>
                <td class="number">{done === null ? "" : `${done} of ${run.updates ?? "?"}`}</td>
                <td class="number">{lines.length ? duration(lines.at(-1)!.training_seconds) : ""}</td>
                <td class="number">{success.length ? `${success[0]!.toFixed(1)} → ${success.at(-1)!.toFixed(1)} %` : ""}</td>
                <td><a href={link("episodes", { run: place })}>episodes</a> <a href={link("hurts", { run: place })}>trouble</a></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Log({ run }: { run: RunInfo }) {
  if (!run.log.length && !run.fault) return null;
  return (
    <details open={run.state === "stopped"}>
      <summary>{run.state === "stopped" ? "It stopped before its end. Its last words:" : "Log"} <span class="dim">{run.name}</span></summary>
      {run.fault && <p class="error">{run.fault}</p>}
      <Text>{run.log.join("\n")}</Text>
    </details>
  );
}
