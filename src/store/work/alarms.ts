import { hash } from "node:crypto";
import { type Alarm, type AlarmChange, alarmKey } from "../../model/alarm.ts";
import type { Work } from "../sql/ops.ts";
import type { Process } from "./processes.ts";
import { create, list, put, values } from "./state.ts";

/*
 * Alarms in force, and the changes of them that no process has reported yet, each with the process that should: it may end
 * before it does, and the next leader then reports them.
 */

interface Unreported {
  readonly change: AlarmChange;
  readonly process: string;
}

const inForce = "alarm/";
const unreported = "unreported/";
/** The whole change names it, and may be longer than a key. */
const unreportedKey = (change: AlarmChange): string => `${unreported}${hash("sha256", JSON.stringify(change))}`;

export function* alarmsInForce(): Work<readonly Alarm[]> {
  return (yield* list<Alarm>(inForce)).map(({ value }) => value);
}

/** True when this process reports the change: it made it, now or in an earlier try whose answer was lost. */
export function* noteAlarm(change: AlarmChange, { id, isAlone }: Process): Work<boolean> {
  const { state, alarm } = change;
  const key = `${inForce}${alarmKey(alarm)}`;
  const [known = null] = yield* values<Alarm>([key], "update");
  if (state === "ended") yield* put(key, null);
  else if (known === null) yield* create(key, alarm);
  if (isAlone || (known === null) === (state === "began")) yield* put(unreportedKey(change), { change, process: id });
  const [noted] = yield* values<Unreported>([unreportedKey(change)]);
  return noted?.process === id;
}

export function* untoldAlarms(): Work<readonly AlarmChange[]> {
  return (yield* list<Unreported>(unreported)).map(({ value }) => value.change);
}

export function* alarmTold(change: AlarmChange): Work<void> {
  yield* put(unreportedKey(change), null);
}
