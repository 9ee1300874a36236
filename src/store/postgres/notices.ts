import { createListeners } from "../create-store.ts";
import type { DueDelivery } from "../port.ts";

/**
 * A notice locks the whole server for a moment. Listeners of other processes may be a little
 * behind.
 */
const gatherMs = { due: 4, stored: 50 };
/** Above it, workers receive only the route. */
const mostNamed = 60;

/** Short names: the server takes 8,000 bytes. */
interface Notice {
  readonly i: string;
  /** Events were stored. */
  readonly s: boolean;
  readonly d: readonly DueDelivery[];
  /** Routes whose deliveries have changed. */
  readonly w: readonly string[];
}

interface NoticeParts {
  readonly id: string;
  isOwn(route: string): boolean;
  /** It may fail: all look for themselves twice a second. */
  send(payload: string): Promise<unknown>;
}

export function createNotices({ id, isOwn, send }: NoticeParts) {
  const ownStart = JSON.stringify({ i: id }).slice(0, -1);
  const listeners = createListeners();
  let due: DueDelivery[] = [];
  let routes = new Set<string>();
  let isStored = false;
  let timer: NodeJS.Timeout | null = null;
  let flushesAt = Number.POSITIVE_INFINITY;
  let isWaking = false;

  function schedule(ms: number): void {
    const at = performance.now() + ms;
    if (at >= flushesAt) return;
    if (timer !== null) clearTimeout(timer);
    flushesAt = at;
    timer = setTimeout(flush, ms);
  }

  function flush(): void {
    timer = null;
    flushesAt = Number.POSITIVE_INFINITY;
    const named = due.length > mostNamed ? [] : due;
    if (named !== due) for (const { route } of due) routes.add(route);
    const notice: Notice = { i: id, s: isStored, d: named, w: [...routes] };
    due = [];
    routes = new Set();
    isStored = false;
    send(JSON.stringify(notice)).catch(() => {});
  }

  function wakeStored(): void {
    if (isWaking) return;
    isWaking = true;
    setImmediate(() => {
      isWaking = false;
      listeners.wakeStored();
    });
  }

  return {
    announce(more: readonly DueDelivery[]): void {
      if (more.length === 0) return;
      listeners.offer(more);
      const others = more.filter(({ route }) => !isOwn(route));
      if (others.length === 0) return;
      due.push(...others);
      schedule(gatherMs.due);
    },
    wake(route: string): void {
      listeners.wake(route);
      routes.add(route);
      schedule(gatherMs.due);
    },
    stored(): void {
      wakeStored();
      isStored = true;
      schedule(gatherMs.stored);
    },
    wakeStored,
    receive(payload: string): void {
      const notice = payload.startsWith(ownStart) ? null : noticeIn(payload);
      if (notice === null) return;
      const { s, d, w } = notice;
      if (s) wakeStored();
      if (d.length > 0) listeners.offer(d);
      for (const route of w) listeners.wake(route);
    },
    onDue: listeners.onDue,
    onStored: listeners.onStored,
    async close(): Promise<void> {
      listeners.clear();
      if (timer === null) return;
      clearTimeout(timer);
      flush();
    },
  };
}

/** Anyone who may use the database may send something else. */
function noticeIn(payload: string): Notice | null {
  try {
    const notice = JSON.parse(payload) as Partial<Notice> | null;
    return Array.isArray(notice?.d) && Array.isArray(notice.w) ? (notice as Notice) : null;
  } catch {
    return null;
  }
}
