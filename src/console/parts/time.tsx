import { useEffect, useState } from "preact/hooks";
import { now } from "../app/clock.ts";
import { count, duration, none } from "./format.ts";

const today = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const otherDay = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});

/** A time in the viewer's zone, with exact UTC on hover. */
export function Time({ at }: { at: string | null }) {
  if (at === null) return <span class="dim">{none}</span>;
  const date = new Date(at);
  const format = date.toDateString() === new Date(now()).toDateString() ? today : otherDay;
  return (
    <time dateTime={at} title={at}>
      {format.format(date)}
    </time>
  );
}

const whole = (value: number): string => count(Math.floor(value));

/**
 * `12 min ago`, or `in 40 s`; counts on while the page is shown. A time to come may have its own
 * word once it has passed.
 */
export function Ago({ at, past }: { at: string | null; past?: string }) {
  const current = useNow();
  if (at === null) return <span class="dim">{none}</span>;
  const ms = current - Date.parse(at);
  return (
    <time dateTime={at} title={at}>
      {past !== undefined && ms >= 0
        ? past
        : Math.abs(ms) < 1_000
          ? "now"
          : ms > 0
            ? `${duration(ms, whole)} ago`
            : `in ${duration(-ms, whole)}`}
    </time>
  );
}

const watchers = new Set<(now: number) => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** The relay's time, each second. All components share one timer. */
function useNow(): number {
  const [at, setAt] = useState(now);
  useEffect(() => {
    watchers.add(setAt);
    timer ??= setInterval(() => {
      for (const notify of watchers) notify(now());
    }, 1_000);
    return () => {
      watchers.delete(setAt);
      if (watchers.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  }, []);
  return at;
}
