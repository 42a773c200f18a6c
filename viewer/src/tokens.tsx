// A trained response token by token: red where the teacher found it less likely than the student, blue where more.

import { useState } from "preact/hooks";
import { visible } from "./analysis";
import { Text } from "./parts";
import type { StoredResponse } from "./types";

const MANY = 4000;
const STRONG = 2;

/** The shade of an advantage: sign and strength, full at 2 nats. */
export function shade(advantage: number | null | undefined): string {
  if (advantage == null || Math.abs(advantage) < 0.02) return "";
  const strength = Math.min(1, Math.abs(advantage) / STRONG);
  const alpha = (0.1 + 0.5 * Math.sqrt(strength)).toFixed(2);
  return advantage < 0 ? `rgba(214, 60, 45, ${alpha})` : `rgba(38, 120, 220, ${alpha})`;
}

const number = (value: number | null | undefined) => (value == null ? "–" : value.toFixed(3).replace(/^-0\.000$/, "0.000"));

export function Tokens({ response }: { response: StoredResponse }) {
  const [at, point] = useState<number | null>(null);
  const [all, showAll] = useState(false);
  const shown = all ? response.token_texts : response.token_texts.slice(0, MANY);
  const over = (event: Event) => {
    const place = (event.target as HTMLElement).dataset?.place;
    if (place !== undefined) point(Number(place));
  };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    point((before) => Math.min(shown.length - 1, Math.max(0, (before ?? -step) + step)));
  };
  return (
    <div class="tokens">
      <p class="scale">
        <span><i style={{ background: shade(-2) }} /> teacher objects</span>
        <span><i style={{ background: shade(2) }} /> teacher agrees more</span>
        <span><i class="inserted" /> inserted, not trained on</span>
        <span class="dim">update {response.update}, policy version {response.version}</span>
      </p>
      <div class="text" role="group" tabIndex={0} aria-label="Tokens; arrow keys go from one to the next" onMouseOver={over} onKeyDown={key}>
        {shown.map((text, place) => {
          const inserted = response.mask[place] === 0;
          const look = `${inserted ? "inserted" : ""} ${place === at ? "at" : ""}`;
          const background = inserted ? "" : shade(response.advantages[place]);
          return <span key={place} data-place={place} class={look.trim() || undefined} style={{ background }}>{visible(text)}</span>;
        })}
        {shown.length < response.token_texts.length && (
          <button class="more" onClick={() => showAll(true)}>… show all {response.token_texts.length} tokens</button>
        )}
      </div>
      <p class="token" aria-live="polite">{at === null ? "Point at a token." : <Facts response={response} at={at} />}</p>
      <details>
        <summary>Prompt of the full response</summary>
        <Text>{response.prompt}</Text>
      </details>
    </div>
  );
}

function Facts({ response, at }: { response: StoredResponse; at: number }) {
  const others = response.alternatives?.[at];
  return (
    <>
      <code>{visible(JSON.stringify(response.token_texts[at] ?? ""))}</code> token {at + 1}
      {response.mask[at] === 0 ? (
        <> · inserted by the thinking budget</>
      ) : (
        <>
          {" "}· student <b>{number(response.student[at])}</b> · teacher <b>{number(response.teacher[at])}</b> · advantage{" "}
          <b>{number(response.advantages[at])}</b>
        </>
      )}
      {others?.length ? <> · teacher's choices: {others.map(([text, value]) => `${visible(JSON.stringify(text))} ${number(value)}`).join(", ")}</> : null}
    </>
  );
}
