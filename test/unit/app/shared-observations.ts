import { type AccountNote, type AccountWatch, withNote } from "../../../src/model/account-watch.ts";
import type { EventDetail } from "../../../src/model/answers/events.ts";
import { type AlarmName, alarmKey, type StoredAlarm } from "../../../src/model/attention.ts";
import type { Clock } from "../../../src/model/clock.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";

/** What several processes share, as far as leases, notes and a message's events go. */
export function createSharedStore(clock: Clock) {
  const leases = new Map<string, { holder: string; until: number }>();
  const noted: AccountNote[] = [];
  const watched = new Map<string, AccountWatch>();
  /** By wamid. */
  const told = new Map<string, Pick<EventDetail, "origin" | "status">[]>();
  const all: Pick<EventDetail, "origin" | "status">[] = [];
  const alarms = new Map<string, StoredAlarm>();
  let isAway = false;

  function here(): void {
    if (isAway) throw new StoreUnavailable("away");
  }

  return {
    noted,
    /** An event of a message was stored. */
    store(wamid: string, event: Pick<EventDetail, "origin" | "status">): void {
      told.set(wamid, [...(told.get(wamid) ?? []), event]);
    },
    away(is: boolean): void {
      isAway = is;
    },
    untold: () => [...alarms.values()].filter(({ isReported }) => !isReported),
    /** Its store as one process has it. */
    of: (holder: string) => ({
      isShared: true,
      async holdLease(name: string, forMs: number): Promise<boolean> {
        here();
        const held = leases.get(name);
        if (held !== undefined && held.holder !== holder && held.until > clock.now()) return false;
        leases.set(name, { holder, until: clock.now() + forMs });
        return true;
      },
      async noteWatched(
        notes: readonly AccountNote[],
        at: number,
        windowMs: number,
      ): Promise<void> {
        here();
        noted.push(...notes);
        for (const note of notes)
          watched.set(
            note.account,
            withNote(watched.get(note.account) ?? null, note, at, windowMs),
          );
      },
      async watched() {
        here();
        return new Map(watched);
      },
      async alarms() {
        here();
        return [...alarms.values()];
      },
      async keepAlarm(name: AlarmName, alarm: StoredAlarm | null) {
        here();
        if (alarm === null) alarms.delete(alarmKey(name));
        else alarms.set(alarmKey(name), alarm);
      },
      read: {
        eventsOf: async (_type: string, _account: string, wamid: string) =>
          (told.get(wamid) ?? []).map((event) => {
            all.push(event);
            return all.length - 1;
          }),
        getEvent: async (seq: number) => all[seq] ?? null,
      },
    }),
  };
}
