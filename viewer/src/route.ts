// Addresses: everything that a page shows is in the part after "#", so that it can be kept and sent.

import { useEffect, useState } from "preact/hooks";

export interface Route {
  page: string;
  at: URLSearchParams;
}

export function parse(hash: string): Route {
  const [page = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { page, at: new URLSearchParams(query) };
}

export function link(page: string, at: Record<string, string | number | null | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(at)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `#/${page}?${text}` : `#/${page}`;
}

/** Change some parts of the address and keep the others, without a step in the browser's history. */
export function amend(changes: Record<string, string | number | null>): void {
  const { page, at } = parse(location.hash);
  const target = link(page, { ...Object.fromEntries(at), ...changes });
  history.replaceState(null, "", target);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const [route, change] = useState(() => parse(location.hash));
  useEffect(() => {
    const follow = () => change(parse(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return route;
}

/** The runs that are looked at together: "0,3". All of a few, the first of many. */
export function chosen(at: URLSearchParams, count: number): number[] {
  const text = at.get("runs");
  if (text === "none") return [];
  const named = (text ?? "")
    .split(",")
    .filter((part) => /^\d+$/.test(part))
    .map(Number)
    .filter((run) => run < count);
  return named.length ? named : Array.from({ length: Math.min(count, 6) }, (_, run) => run);
}
