// One chart as SVG: lines or stacked areas, hover, zoom by dragging, arrow keys, export as SVG or PNG.

import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { short, thin, ticks, type Point, type Series } from "./analysis";

const HEIGHT = 210;
const PAD = { left: 46, right: 12, top: 8, bottom: 24 };

interface Props {
  title: string;
  unit?: string;
  series: Series[];
  stacked?: boolean;
  xName: string;
  xText: (x: number) => string;
  xSteps?: number[];
  top?: number;
}

/** Nothing where there is nothing to draw. */
export function Chart(props: Props) {
  return props.series.some((one) => one.points.length) ? <Drawn {...props} /> : null;
}

function Drawn({ title, unit = "", series, stacked, xName, xText, xSteps, top }: Props) {
  const [width, resize] = useState(480);
  const [zoom, setZoom] = useState<[number, number] | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const [drag, setDrag] = useState<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const drawing = useRef<SVGSVGElement>(null);
  const clip = useId();
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => entry && resize(Math.max(260, entry.contentRect.width)));
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);

  const [filled, shapes, xs] = useMemo(() => {
    const some = series.filter((one) => one.points.length);
    const places = new Set(some.flatMap((one) => one.points.map(([x]) => x)));
    return [some, stacked ? pile(some) : some.map(flat), [...places].sort((one, other) => one - other)];
  }, [series, stacked]);
  const [xLow, xHigh] = zoom ?? [xs[0] ?? 0, xs.at(-1) ?? 1];
  const ys = shapes.flatMap((one) => one.points.filter(([x]) => x >= xLow && x <= xHigh).map(([, y]) => y));
  const yHigh = top ?? ys.reduce((one, other) => Math.max(one, other), 0) * 1.05;
  const yLow = ys.reduce((one, other) => Math.min(one, other), 0);
  const span = xHigh - xLow || 1;
  const rise = yHigh - yLow || 1;
  const inner = width - PAD.left - PAD.right;
  const toX = (x: number) => PAD.left + (inner * (x - xLow)) / span;
  const toY = (y: number) => PAD.top + (HEIGHT - PAD.top - PAD.bottom) * (1 - (y - yLow) / rise);
  const path = (points: Point[]) => points.map(([x, y]) => `${toX(x).toFixed(1)},${toY(y).toFixed(1)}`).join("L");
  const xAt = (event: PointerEvent) => {
    const rect = drawing.current!.getBoundingClientRect();
    return Math.min(xHigh, Math.max(xLow, xLow + (span * (event.clientX - rect.left - PAD.left)) / inner));
  };
  const near = cursor === null ? null : nearest(xs, cursor);

  function release(event: PointerEvent): void {
    if (drag !== null && Math.abs(toX(xAt(event)) - toX(drag)) > 8) {
      setZoom([Math.min(drag, xAt(event)), Math.max(drag, xAt(event))]);
    }
    setDrag(null);
  }

  function key(event: KeyboardEvent): void {
    if (event.key === "Escape") setZoom(null);
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const inView = xs.filter((x) => x >= xLow && x <= xHigh);
    const place = near === null ? -1 : inView.indexOf(near);
    const next = event.key === "ArrowRight" ? Math.min(place + 1, inView.length - 1) : Math.max(place - 1, 0);
    setCursor(inView[next] ?? null);
  }

  return (
    <figure class="chart" ref={box}>
      <figcaption>
        <strong>{title}</strong> {unit && <span class="dim">{unit}</span>}
        <span class="tools">
          {zoom && <button onClick={() => setZoom(null)}>whole</button>}
          <button aria-label={`${title} as SVG`} onClick={() => save(drawing.current!, title, "svg")}>SVG</button>
          <button aria-label={`${title} as PNG`} onClick={() => save(drawing.current!, title, "png")}>PNG</button>
        </span>
      </figcaption>
      <svg
        ref={drawing}
        xmlns="http://www.w3.org/2000/svg"
        width={width}
        height={HEIGHT}
        viewBox={`0 0 ${width} ${HEIGHT}`}
        font-family="system-ui, sans-serif"
        font-size="11"
        role="img"
        tabIndex={0}
        aria-label={describe(title, unit, filled)}
        onPointerMove={(event) => setCursor(xAt(event))}
        onPointerLeave={() => setCursor(null)}
        onPointerDown={(event) => {
          drawing.current!.setPointerCapture(event.pointerId);
          setDrag(xAt(event));
        }}
        onPointerUp={release}
        onDblClick={() => setZoom(null)}
        onKeyDown={key}
      >
        <clipPath id={clip}>
          <rect x={PAD.left - 4} y={0} width={inner + 8} height={HEIGHT - PAD.bottom + 1} />
        </clipPath>
        {ticks(yLow, yHigh, 4).map((y) => (
          <g key={y}>
            <line x1={PAD.left} x2={width - PAD.right} y1={toY(y)} y2={toY(y)} stroke="var(--line)" />
            <text x={PAD.left - 6} y={toY(y) + 4} text-anchor="end" fill="var(--dim)">{short(y)}</text>
          </g>
        ))}
        {ticks(xLow, xHigh, Math.max(2, Math.floor(width / 110)), xSteps).map((x) => (
          <text key={x} x={toX(x)} y={HEIGHT - 8} text-anchor={toX(x) > width - 40 ? "end" : "middle"} fill="var(--dim)">{xText(x)}</text>
        ))}
        <g clip-path={`url(#${clip})`}>
          {shapes.map(({ floor, points, color, dash, dots, faint }, place) =>
            floor ? (
              <path key={place} d={`M${path(points)}L${path(floor.toReversed())}Z`} fill={color} fill-opacity="0.75" />
            ) : (
              <g key={place} opacity={faint ? 0.5 : 1}>
                <path
                  d={`M${path(thin(points, Math.ceil(inner)))}`}
                  fill="none"
                  stroke={color}
                  stroke-width={faint ? 1.2 : 1.8}
                  stroke-dasharray={dash}
                  stroke-linejoin="round"
                />
                {(dots || points.length === 1) &&
                  points.map(([x, y]) => <circle key={x} cx={toX(x)} cy={toY(y)} r="3" fill={color} />)}
              </g>
            ),
          )}
          {near !== null && <line x1={toX(near)} x2={toX(near)} y1={PAD.top} y2={HEIGHT - PAD.bottom} stroke="var(--dim)" />}
          {drag !== null && cursor !== null && (
            <rect
              x={Math.min(toX(drag), toX(cursor))}
              y={PAD.top}
              width={Math.abs(toX(cursor) - toX(drag))}
              height={HEIGHT - PAD.top - PAD.bottom}
              fill="var(--accent)"
              fill-opacity="0.15"
            />
          )}
        </g>
      </svg>
      <ul class="legend">
        {near !== null && <li class="at">{xName} {xText(near)}</li>}
        {filled.slice(0, 24).map((one, place) => (
          <li key={place}>
            <svg width="18" height="8" aria-hidden="true">
              <line x1="0" x2="18" y1="4" y2="4" stroke={one.color} stroke-width={stacked ? 8 : 2.5} stroke-dasharray={one.dash} />
            </svg>
            {one.name}
            {near !== null && <b> {valueAt(one.points, near)}</b>}
          </li>
        ))}
        {filled.length > 24 && <li class="dim">and {filled.length - 24} more</li>}
      </ul>
    </figure>
  );
}

const flat = (one: Series): Series & { floor: Point[] | null } => ({ ...one, floor: null });

/** Each series on top of those before it. */
function pile(series: Series[]): (Series & { floor: Point[] })[] {
  const sums = new Map<number, number>();
  return series.map((one) => {
    const floor: Point[] = one.points.map(([x]) => [x, sums.get(x) ?? 0]);
    const points: Point[] = one.points.map(([x, y], place) => [x, y + floor[place]![1]]);
    for (const [x, y] of points) sums.set(x, y);
    return { ...one, points, floor };
  });
}

const nearest = (xs: number[], x: number) =>
  xs.reduce((one, other) => (Math.abs(other - x) < Math.abs(one - x) ? other : one), xs[0] ?? x);

/** The last value at or before x: curves of several runs seldom have points at the same place. */
function valueAt(points: Point[], x: number): string {
  const found = points.findLast(([place]) => place <= x);
  return found ? short(found[1]) : "–";
}

function describe(title: string, unit: string, series: Series[]): string {
  const ends = series.slice(0, 8).map((one) => `${one.name} ends at ${short(one.points.at(-1)![1])}`);
  return `${title} ${unit}: ${ends.join(", ")}. Arrow keys read values.`;
}

/** The picture as a file. Colours that the style sheet names are written out, because the file has no style sheet. */
function save(drawing: SVGSVGElement, title: string, kind: "svg" | "png"): void {
  const style = getComputedStyle(drawing);
  const background = `<rect width="100%" height="100%" fill="${style.getPropertyValue("--bg")}"/>`;
  const text = new XMLSerializer()
    .serializeToString(drawing)
    .replace(/var\((--[a-z]+)\)/g, (_, name: string) => style.getPropertyValue(name).trim())
    .replace(/(<svg[^>]*>)/, `$1${background}`);
  const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  const name = `${title.toLowerCase().replace(/[^a-z]+/g, "-")}.${kind}`;
  if (kind === "svg") return download(source, name);
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    download(canvas.toDataURL("image/png"), name);
  };
  image.src = source;
}

function download(source: string, name: string): void {
  const anchor = document.createElement("a");
  anchor.href = source;
  anchor.download = name;
  anchor.click();
}
