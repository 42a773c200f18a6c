// Two episodes of the same task, turn against turn.

import { matches, NO_FILTER, visible } from "../analysis";
import { useEpisode, useTables } from "../data";
import { Badge, Diff, Text, words } from "../parts";
import { amend, link } from "../route";
import type { Episode, EpisodeRow, Kind, RunInfo, Turn } from "../types";
import { Facts } from "./episode";

interface Place {
  run: number;
  kind: Kind;
  row: number;
}

export function place(text: string | null, runs: number): Place | null {
  const found = /^(\d+)\.(episodes|evaluation)\.(\d+)$/.exec(text ?? "");
  if (!found || Number(found[1]) >= runs) return null;
  return { run: Number(found[1]), kind: found[2] as Kind, row: Number(found[3]) };
}

const MANY = 60;

export function ComparePage({ runs, at }: { runs: RunInfo[]; at: URLSearchParams }) {
  const a = place(at.get("a"), runs.length);
  const b = place(at.get("b"), runs.length);
  const first = useEpisode(a?.kind ?? "episodes", a?.run ?? 0, a?.row ?? null);
  const second = useEpisode(b?.kind ?? "episodes", b?.run ?? 0, b?.row ?? null);
  const task = first.value?.task.id ?? at.get("task") ?? "";
  return (
    <>
      <h1>Compare</h1>
      {(first.error || second.error) && <p class="error">{first.error || second.error}</p>}
      <Candidates runs={runs} task={task} a={at.get("a")} b={at.get("b")} />
      {first.value && second.value && <SideBySide a={first.value} b={second.value} names={[runs[a!.run]!.name, runs[b!.run]!.name]} />}
    </>
  );
}

/** Everything that was stored of a task, in all runs; without a task, the tasks that were played most often. */
function Candidates({ runs, task, a, b }: { runs: RunInfo[]; task: string; a: string | null; b: string | null }) {
  const every = runs.map((_, run) => run);
  const training = useTables(every, "episodes");
  const evaluation = useTables(every, "evaluation");
  const found: { key: string; run: number; row: EpisodeRow }[] = [];
  const counts = new Map<string, number>();
  for (const table of [...training, ...evaluation]) {
    for (const row of table.items) {
      counts.set(row.task, (counts.get(row.task) ?? 0) + 1);
      if (row.task === task && matches(row, NO_FILTER)) found.push({ key: `${table.run}.${table.kind}.${row.row}`, run: table.run, row });
    }
  }
  if (!task) {
    const often = [...counts].filter(([, count]) => count > 1).sort((one, other) => other[1] - one[1]).slice(0, MANY);
    return (
      <>
        <p>{often.length ? "Tasks that were played more than once:" : "No task was played twice in these runs."}</p>
        <ul class="tasks">
          {often.map(([name, count]) => <li key={name}><a href={link("compare", { task: name })}>{visible(name)}</a> <span class="dim">{count} times</span></li>)}
        </ul>
      </>
    );
  }
  return (
    <details open={!a || !b}>
      <summary>Task <b>{visible(task)}</b>: {found.length} episodes; choose two</summary>
      <div class="scroll low" tabIndex={0} role="region" aria-label="Episodes of this task">
        <table>
          <thead><tr><th scope="col">Left</th><th scope="col">Right</th><th scope="col">Run</th><th scope="col">When</th><th scope="col">Outcome</th><th scope="col" class="number">Turns</th></tr></thead>
          <tbody>
            {found.slice(0, MANY).map(({ key, run, row }) => {
              const when = row.update === null ? `batch ${row.batch}, version ${row.version}` : row.who === "teacher" ? "teacher" : `evaluation after update ${row.update}`;
              return (
                <tr key={key}>
                  {(["a", "b"] as const).map((side) => (
                    <td key={side}><input type="radio" name={side} aria-label={`${side === "a" ? "left" : "right"}: ${runs[run]!.name}, ${when}`} checked={(side === "a" ? a : b) === key} onChange={() => amend({ [side]: key })} /></td>
                  ))}
                  <td>{runs[run]!.name}</td>
                  <td>{when}</td>
                  <td><Badge kind={row.success ? "success" : "failure"}>{row.success ? "success" : "failure"}</Badge></td>
                  <td class="number">{row.turns}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </details>
  );
}

/** The first turn at which two episodes do or see something else; 0 if none. */
export function parting(a: Episode, b: Episode): number {
  const longest = Math.max(a.turns.length, b.turns.length);
  for (let turn = 0; turn < longest; turn++) {
    const [one, other] = [a.turns[turn], b.turns[turn]];
    if (one?.observation !== other?.observation || one?.action !== other?.action) return turn + 1;
  }
  return 0;
}

function SideBySide({ a, b, names }: { a: Episode; b: Episode; names: [string, string] }) {
  const longest = Math.max(a.turns.length, b.turns.length);
  const apart = parting(a, b);
  return (
    <>
      <div class="pair">
        {[a, b].map((one, side) => <div key={side}><h2>{names[side]}</h2><Facts episode={one} /></div>)}
      </div>
      <p>{apart ? <>They part at <b>turn {apart}</b>.</> : "They are the same, turn for turn."}</p>
      {Array.from({ length: longest }, (_, turn) => {
        const [one, other] = [a.turns[turn], b.turns[turn]];
        return (
          <section key={turn} class={`turn ${turn + 1 === apart ? "left" : ""}`}>
            <h2>Turn {turn + 1} {one && other && one.observation === other.observation && <span class="dim">the same observation</span>}</h2>
            <div class="pair">
              <Side turn={one} other={other} side="before" />
              <Side turn={other} other={one} side="after" />
            </div>
          </section>
        );
      })}
    </>
  );
}

function Side({ turn, other, side }: { turn: Turn | undefined; other: Turn | undefined; side: "before" | "after" }) {
  if (!turn) return <div class="empty">It was over.</div>;
  const pair = side === "before" ? [turn.observation, other?.observation] : [other?.observation, turn.observation];
  return (
    <div>
      {other ? <Diff before={pair[0]!} after={pair[1]!} side={side} /> : <Text>{turn.observation}</Text>}
      <p>
        <b class={other && other.action !== turn.action ? "differs" : undefined}>“{visible(turn.action)}”</b>{" "}
        <Badge kind={turn.source}>{words(turn.source)}</Badge>
        {turn.verdict !== "unchecked" && <Badge kind={turn.verdict}>{words(turn.verdict)}</Badge>}
      </p>
      {turn.response && <details><summary>Full response</summary><Text>{turn.response.text}</Text></details>}
    </div>
  );
}
