import { useEffect, useState } from "preact/hooks";
import { count, duration, none } from "./format.ts";

const today = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
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
  const format = date.toDateString() === new Date().toDateString() ? today : otherDay;
  return (
    <time dateTime={at} title={at}>
      {format.format(date)}
    </time>
  );
}

const whole = (value: number): string => count(Math.floor(value));

/** `12 min ago`, or `in 40 s`; counts on while the page is shown. A time to come may have its own word once it has passed. */
export function Ago({ at, past }: { at: string | null; past?: string }) {
  const now = useNow();
  if (at === null) return <span class="dim">{none}</span>;
  const ms = now - Date.parse(at);
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

/** Unix ms, each second. All components share one timer. */
function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    watchers.add(setNow);
    timer ??= setInterval(() => {
      for (const tell of watchers) tell(Date.now());
    }, 1_000);
    return () => {
      watchers.delete(setNow);
      if (watchers.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  }, []);
  return now;
}
