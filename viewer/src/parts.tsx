// Small parts that several pages use. All text goes through the framework, which escapes it.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { diff, visible } from "./analysis";
import { amend } from "./route";
import type { RunInfo } from "./types";

const CLIP = 6000;

/** Text as it is, with control characters made visible; a long one is cut until somebody asks for all of it. */
export function Text({ children, label }: { children: string; label?: string }) {
  const [all, showAll] = useState(false);
  const cut = !all && children.length > CLIP;
  return (
    <div class="text" aria-label={label} role={label ? "group" : undefined}>
      {visible(cut ? children.slice(0, CLIP) : children)}
      {cut && (
        <button class="more" onClick={() => showAll(true)}>
          … show all {children.length.toLocaleString("en")} characters
        </button>
      )}
    </div>
  );
}

export function Diff({ before, after, side }: { before: string; after: string; side: "before" | "after" }) {
  const skip = side === "before" ? "new" : "gone";
  const parts = diff(before.slice(0, CLIP), after.slice(0, CLIP)).filter((part) => part.mark !== skip);
  return (
    <div class="text">
      {parts.map((part, place) => {
        const text = visible(part.text);
        if (part.mark === "gone") return <del key={place}>{text}</del>;
        return part.mark === "new" ? <ins key={place}>{text}</ins> : text;
      })}
    </div>
  );
}

export function Badge({ kind, children }: { kind: string; children: ComponentChildren }) {
  return <span class={`badge ${kind.replace(/[^a-z_]/g, "")}`}>{children}</span>;
}

export const words = (name: string) => name.replaceAll("_", " ");

export function Choice(props: { label: string; value: string; name: string; options: (string | [string, string])[] }) {
  return (
    <label>
      {props.label}
      <select value={props.value} onChange={(event) => amend({ [props.name]: event.currentTarget.value })}>
        {props.options.map((option) => {
          const [value, text] = Array.isArray(option) ? option : [option, option];
          return <option key={value} value={value}>{text}</option>;
        })}
      </select>
    </label>
  );
}

/** Which run a page is about; nothing where there is one only. */
export function RunChoice({ runs, run }: { runs: RunInfo[]; run: number }) {
  if (runs.length < 2) return null;
  return <Choice label="Run" name="run" value={String(run)} options={runs.map((one, place) => [String(place), one.name])} />;
}

export const runAt = (at: URLSearchParams, runs: RunInfo[], name = "run") => {
  const run = Number(at.get(name) ?? 0);
  return Number.isInteger(run) && run >= 0 && run < runs.length ? run : 0;
};

export function Reading({ behind, unreadable }: { behind: number; unreadable: string[] }) {
  return (
    <span role="status" class="dim">
      {behind > 0 && `reading on: ${(behind / 1e6).toFixed(1)} MB left. `}
      {unreadable.length > 0 && `${unreadable.length} lines cannot be read (${visible(unreadable[0]!)}).`}
    </span>
  );
}
