// Where it hurts: what went wrong, how often, in which kind of task and at which turn.

import { useMemo } from "preact/hooks";
import { trouble, visible, WHATS, type What } from "../analysis";
import { useTables } from "../data";
import { Choice, Reading, RunChoice, runAt } from "../parts";
import { link } from "../route";
import type { RunInfo } from "../types";

const TITLES: Record<What, string> = {
  diverged: "left the reference",
  invalid: "action not admissible",
  repeated: "action repeated in the same state",
  kl: "mean reverse KL",
};

export function HurtsPage({ runs, at }: { runs: RunInfo[]; at: URLSearchParams }) {
  const run = runAt(at, runs);
  const episodes = useTables([run], "episodes")[0]!;
  const responses = useTables([run], "responses")[0]!;
  const found = useMemo(() => trouble(episodes.items, responses.items), [episodes.items, responses.items]);
  const rows = useMemo(() => new Map(episodes.items.map((row) => [row.id, row])), [episodes.items]);
  const most = Math.max(1, ...found.reasons.map(([, count]) => count));
  const asked = at.get("what") as What | null;
  const what = asked && WHATS.includes(asked) ? asked : "diverged";
  return (
    <>
      <h1>Where it hurts</h1>
      <div class="bar">
        <RunChoice runs={runs} run={run} />
        <Reading behind={episodes.behind + responses.behind} unreadable={episodes.unreadable} />
      </div>
      <h2>Why rollouts left the reference</h2>
      {episodes.complete && found.reasons.length === 0 && <p class="empty">None did, or none was guided.</p>}
      <ul class="bars">
        {found.reasons.map(([reason, count]) => (
          <li key={reason}>
            <a href={link("episodes", { run, reason })}>{reason}</a>
            <span class="track"><i style={{ width: `${(100 * count) / most}%` }} /></span>
            <b>{count}</b>
          </li>
        ))}
      </ul>
      <h2>By kind and turn</h2>
      <div class="bar"><Choice label="Share of turns:" name="what" value={what} options={WHATS.map((one) => [one, TITLES[one]])} /></div>
      <Heat found={found} what={what} run={run} />
      <h2>Responses that the teacher objected to most</h2>
      {responses.complete && found.worst.length === 0 && <p class="empty">This run stored no responses token by token.</p>}
      {found.worst.length > 0 && (
        <div class="scroll low" tabIndex={0} role="region" aria-label="Responses by reverse KL">
          <table>
            <thead><tr><th scope="col">Task</th><th scope="col" class="number">Turn</th><th scope="col" class="number">Update</th><th scope="col" class="number">Reverse KL</th><th scope="col" class="number">Worst token</th><th scope="col" class="number">Tokens</th></tr></thead>
            <tbody>
              {found.worst.map((one) => {
                const episode = rows.get(one.episode);
                return (
                  <tr key={one.row}>
                    <td>{episode ? <a href={link("episode", { run, set: "episodes", row: episode.row, turn: one.turn })}>{visible(episode.task)}</a> : visible(one.episode)}</td>
                    <td class="number">{one.turn}</td>
                    <td class="number">{one.update}</td>
                    <td class="number">{one.kl!.toFixed(3)}</td>
                    <td class="number">{one.worst?.toFixed(2)}</td>
                    <td class="number">{one.tokens}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function Heat({ found, what, run }: { found: ReturnType<typeof trouble>; what: What; run: number }) {
  const cells = found.kinds.map((kind) => found.turns.map((turn) => found.cell(what, kind, turn)));
  const highest = Math.max(1e-9, ...cells.flat().map((cell) => cell.share));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={TITLES[what]}>
      <table class="heat">
        <thead>
          <tr><th scope="col">Kind</th>{found.turns.map((turn) => <th key={turn} scope="col">{turn === 20 ? "20+" : turn}</th>)}</tr>
        </thead>
        <tbody>
          {found.kinds.map((kind, row) => (
            <tr key={kind}>
              <th scope="row">
                <a href={link("episodes", { run, kind, result: what === "invalid" || what === "repeated" ? what : "", reason: what === "diverged" ? "any" : "" })}>{visible(kind)}</a>
              </th>
              {cells[row]!.map(({ share, count, of }, turn) => (
                <td
                  key={turn}
                  style={{ background: share > 0 ? `rgba(214, 60, 45, ${(0.08 + 0.42 * (share / highest)).toFixed(2)})` : "" }}
                  title={what === "kl" ? `${of} responses` : `${count} of ${of} turns`}
                >
                  {of === 0 ? "" : what === "kl" ? share.toFixed(2) : share > 0 ? `${Math.round(100 * share)}%` : "·"}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
