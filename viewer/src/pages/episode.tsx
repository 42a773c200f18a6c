// One episode: when things happened, then turn by turn what was seen, done, checked and thought.

import { useEffect, useMemo, useState } from "preact/hooks";
import { after, duration, left, timeline, visible, type Bar } from "../analysis";
import { useEpisode, usePrompts, useResponse, useTables } from "../data";
import { Badge, Diff, Text, runAt, words } from "../parts";
import { link } from "../route";
import { Tokens } from "../tokens";
import type { Episode, FastAction, Kind, Response, ResponseRow, RunInfo, Turn } from "../types";

export function EpisodePage({ runs, at }: { runs: RunInfo[]; at: URLSearchParams }) {
  const run = runAt(at, runs);
  const kind: Kind = at.get("set") === "evaluation" ? "evaluation" : "episodes";
  const row = Number(at.get("row") ?? 0);
  const { value: episode, error } = useEpisode(kind, run, row);
  const responses = useTables(kind === "episodes" ? [run] : [], "responses")[0]?.items ?? [];
  const goal = at.get("turn");
  useEffect(() => {
    if (episode && goal) document.getElementById(`turn-${goal}`)?.scrollIntoView();
  }, [episode, goal]);
  const here = { run, set: kind, row };
  return (
    <>
      <nav class="bar" aria-label="Neighbours">
        <a href={link("episodes", { run, set: kind })}>all episodes of {runs[run]!.name}</a>
        {row > 0 && <a href={link("episode", { ...here, row: row - 1 })}>previous</a>}
        <a href={link("episode", { ...here, row: row + 1 })}>next</a>
        <a href={link("compare", { a: `${run}.${kind}.${row}` })}>compare</a>
      </nav>
      {error && <p class="error">{error}</p>}
      {!episode && !error && <p class="empty">Reading …</p>}
      {episode && <Whole key={`${run} ${kind} ${row} ${goal}`} episode={episode} responses={responses} here={here} goal={goal} />}
    </>
  );
}

interface WholeProps {
  episode: Episode;
  responses: ResponseRow[];
  here: Here;
  goal: string | null;
}

interface Here {
  run: number;
  set: Kind;
  row: number;
  [name: string]: string | number;
}

function Whole({ episode, responses, here, goal }: WholeProps) {
  return (
    <>
      <h1>{visible(episode.task.id)}</h1>
      <Facts episode={episode} />
      {episode.error && <p class="error">Cut short: {visible(episode.error)}</p>}
      <Timeline episode={episode} here={here} />
      {episode.turns.map((turn, place) => (
        <TurnCard
          key={turn.number}
          episode={episode}
          place={place}
          here={here}
          stored={responses.filter((one) => one.episode === episode.id && one.turn === turn.number)}
          open={goal === String(turn.number) || left(turn)}
        />
      ))}
      <section class="turn">
        <h2>After the last turn</h2>
        <Text>{episode.final_observation}</Text>
      </section>
    </>
  );
}

export function Facts({ episode }: { episode: Episode }) {
  const where = episode.update === undefined ? `batch ${episode.batch}` : `evaluation after update ${episode.update}, seed ${episode.seed}`;
  return (
    <p class="facts">
      <Badge kind={episode.success ? "success" : "failure"}>{episode.success ? "success" : "failure"}</Badge>
      <span>{visible(episode.task.kind)}</span>
      <span>{episode.who === "teacher" ? "the teacher" : where}</span>
      <span>{episode.turns.length} turns in {duration(episode.seconds)}</span>
      <span>{episode.guided ? `guided by a reference of ${episode.reference_length} steps` : "without a reference"}</span>
      {episode.attempts > 1 && <span>begun {episode.attempts} times</span>}
      <span class="dim">{visible(episode.id)}</span>
    </p>
  );
}

const LANE = 18;
const LABEL = 132;
const WIDTH = 1000;

function Timeline({ episode, here }: { episode: Episode; here: Record<string, string | number> }) {
  const { turns, responses, lanes, end } = timeline(episode);
  const height = 26 + LANE * (1 + Math.max(lanes, 0)) + 20;
  const x = (seconds: number) => LABEL + ((WIDTH - LABEL - 8) * seconds) / end;
  const bar = (one: Bar, y: number) => (
    <a key={`${one.kind}${one.turn}`} href={link("episode", { ...here, turn: one.turn })} aria-label={`turn ${one.turn}: ${words(one.kind)}, ${duration(one.end - one.start)}`}>
      <rect class={`fill ${one.kind}`} x={x(one.start)} y={y} width={Math.max(1.5, x(one.end) - x(one.start) - 0.8)} height={LANE - 4} rx="2">
        <title>{`turn ${one.turn}: ${words(one.kind)}, ${duration(one.start)} to ${duration(one.end)}`}</title>
      </rect>
    </a>
  );
  const sources = [...new Set(turns.map((one) => one.kind)), ...(responses.length ? ["response"] : [])];
  return (
    <figure class="timeline">
      <svg viewBox={`0 0 ${WIDTH} ${height}`} role="group" aria-label="Timeline" font-size="11">
        {[0, 0.25, 0.5, 0.75, 1].map((part) => (
          <g key={part}>
            <line x1={x(end * part)} x2={x(end * part)} y1="14" y2={height - 16} stroke="var(--line)" />
            <text x={x(end * part)} y={height - 4} text-anchor={part === 1 ? "end" : "middle"} fill="var(--dim)">{duration(end * part)}</text>
          </g>
        ))}
        <text x="0" y={31} fill="var(--fg)">environment advances</text>
        {turns.map((one) => bar(one, 20))}
        {lanes > 0 && <text x="0" y={31 + LANE + 4} fill="var(--fg)">full responses</text>}
        {responses.map((one) => bar(one, 24 + LANE * (1 + one.lane)))}
      </svg>
      <figcaption>
        {sources.map((source) => <span key={source}><i class={`fill ${source}`} /> {source === "think" ? "thinking: the environment waits" : words(source)}</span>)}
        {responses.length === 0 && <span class="dim">When full responses began and ended was not stored.</span>}
      </figcaption>
    </figure>
  );
}

interface CardProps {
  episode: Episode;
  place: number;
  here: Here;
  stored: ResponseRow[];
  open: boolean;
}

function TurnCard({ episode, place, here, stored, open }: CardProps) {
  const turn = episode.turns[place]!;
  return (
    <section class={`turn ${left(turn) ? "left" : ""}`} id={`turn-${turn.number}`}>
      <h2>
        Turn {turn.number} <span class="action">{turn.action ? `“${visible(turn.action)}”` : "no action"}</span>
        <Badge kind={turn.source}>{words(turn.source)}</Badge>
        {turn.verdict !== "unchecked" && <Badge kind={turn.verdict}>{words(turn.verdict)}</Badge>}
        {!turn.valid && <Badge kind="failure">not admissible</Badge>}
        <span class="dim">{duration(turn.seconds)}</span>
      </h2>
      <Text label="Observation">{turn.observation}</Text>
      {turn.admissible && <Admissible actions={turn.admissible} action={turn.action} />}
      {turn.requests.length > 0 && <Requests requests={turn.requests} />}
      {left(turn) && <Divergence episode={episode} place={place} />}
      {!left(turn) && turn.reference_next && (
        <details>
          <summary>The reference's next observation</summary>
          <Text>{turn.reference_next}</Text>
        </details>
      )}
      <FullResponse response={turn.response} run={here.run} stored={stored} open={open} />
      {(turn.requests.length > 0 || turn.response) && <Prompts turn={turn.number} here={here} />}
    </section>
  );
}

function Admissible({ actions, action }: { actions: string[]; action: string }) {
  return (
    <details>
      <summary>{actions.length} admissible actions</summary>
      <ul class="actions">{actions.map((one, place) => <li key={place} class={one === action ? "at" : undefined}>{visible(one)}</li>)}</ul>
    </details>
  );
}

function Requests({ requests }: { requests: FastAction[] }) {
  return (
    <details>
      <summary>
        Fast action{requests.length > 1 ? "s" : ""}: {requests.map((one) => words(one.mode)).join(", then ")}
      </summary>
      {requests.map((one, place) => (
        <div key={place}>
          <p class="dim">
            {words(one.mode)}: {one.tokens} tokens after a prompt of {one.prompt_tokens}; version {one.version};{" "}
            {one.action === null ? "no action found" : `“${visible(one.action)}”`}
          </p>
          <Text>{one.text}</Text>
        </div>
      ))}
    </details>
  );
}

function Divergence({ episode, place }: { episode: Episode; place: number }) {
  const turn = episode.turns[place]!;
  const seen = after(episode, place);
  const next: Turn | undefined = episode.turns[place + 1];
  const found = next ? next.admissible : episode.final_admissible;
  const refused = turn.verdict === "invalid_proposal";
  const proposal = turn.requests.find((one) => one.mode === "inverse_dynamics");
  return (
    <div class="divergence">
      <h3>Here the rollout left the reference{refused && ": what it proposed is not admissible"}</h3>
      {refused && <p>Proposed: <code>{visible(proposal?.action ?? proposal?.text ?? "nothing")}</code></p>}
      {turn.reference_next == null ? (
        <>
          <p class="dim">What the reference saw next was not stored. The rollout saw:</p>
          <Text>{seen}</Text>
        </>
      ) : (
        <div class="pair">
          <div>
            <h4>The reference saw</h4>
            <Diff before={turn.reference_next} after={seen} side="before" />
          </div>
          <div>
            <h4>The rollout saw</h4>
            <Diff before={turn.reference_next} after={seen} side="after" />
          </div>
        </div>
      )}
      {found && turn.reference_admissible && <ActionSets expected={turn.reference_admissible} found={found} />}
    </div>
  );
}

/** Both sets whole, in one order, with what only one of them has marked. */
function ActionSets({ expected, found }: { expected: string[]; found: string[] }) {
  const { left, right, differ } = useMemo(() => {
    const [ours, theirs] = [new Set(found), new Set(expected)];
    const list = (own: Set<string>, other: Set<string>) => [...own].sort().map((action) => ({ action, only: !other.has(action) }));
    const [left, right] = [list(theirs, ours), list(ours, theirs)];
    return { left, right, differ: [...left, ...right].filter((one) => one.only).length };
  }, [expected, found]);
  return (
    <details open={differ > 0}>
      <summary>{differ === 0 ? `The same ${left.length} actions are admissible for both` : `Admissible actions: ${differ} differ`}</summary>
      <div class="pair">
        <div>
          <h4>For the reference ({left.length})</h4>
          <ul class="actions">{left.map(({ action, only }) => <li key={action}>{only ? <del>{visible(action)}</del> : visible(action)}</li>)}</ul>
        </div>
        <div>
          <h4>For the rollout ({right.length})</h4>
          <ul class="actions">{right.map(({ action, only }) => <li key={action}>{only ? <ins>{visible(action)}</ins> : visible(action)}</li>)}</ul>
        </div>
      </div>
    </details>
  );
}

/** The prompts of a turn, rendered again when somebody asks. */
function Prompts({ turn, here }: { turn: number; here: Here }) {
  const [shown, show] = useState(false);
  const { value, error } = usePrompts(here.set, here.run, here.row, shown);
  return (
    <details class="prompts" onToggle={(event) => show(event.currentTarget.open)}>
      <summary>Prompts of this turn</summary>
      {shown && error && <p class="dim">{visible(error)}</p>}
      {shown && !value && !error && <p class="empty">Rendering …</p>}
      {shown && value?.filter((one) => one.turn === turn).map((one, place) => (
        <div key={place}>
          <p class="dim">
            {words(one.mode)}: {one.tokens} tokens
            {one.exact === true && ", exactly as it was used"}
            {one.exact === false && "; it is not what was used: the program, the tokenizer or the templates have changed, or a list was too long to store"}
          </p>
          <Text label={`Prompt: ${words(one.mode)}`}>{one.text}</Text>
        </div>
      ))}
    </details>
  );
}

function FullResponse({ response, run, stored, open }: { response: Response | null; run: number; stored: ResponseRow[]; open: boolean }) {
  const [shown, show] = useState(open);
  if (!response && !stored.length) return null;
  const kl = stored.at(-1)?.kl;
  return (
    <details class="response" open={open} onToggle={(event) => show(event.currentTarget.open)}>
      <summary>
        Full response{" "}
        <span class="dim">
          {response && `${response.generated_tokens} tokens, version ${response.version}`}
          {response?.truncated && ", cut off"}
          {response?.action && `, would do “${visible(response.action)}”`}
          {kl != null && `, reverse KL ${kl.toFixed(3)}`}
          {stored.length > 0 && ", token by token"}
        </span>
      </summary>
      {shown && stored.map((one) => <StoredTokens key={one.row} run={run} row={one.row} />)}
      {!stored.length && response && <Text>{response.text}</Text>}
    </details>
  );
}

function StoredTokens({ run, row }: { run: number; row: number }) {
  const { value, error } = useResponse(run, row);
  if (error) return <p class="error">{error}</p>;
  return value ? <Tokens response={value} /> : <p class="empty">Reading …</p>;
}
