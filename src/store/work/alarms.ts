import { type AlarmName, alarmKey, type StoredAlarm } from "../../model/alarm.ts";
import type { Work } from "../sql/ops.ts";
import { list, put } from "./state.ts";

const prefix = "alarm/";

/** Those in force, and those whose end is not reported yet. */
export function* alarms(): Work<readonly StoredAlarm[]> {
  return (yield* list<StoredAlarm>(prefix)).map(({ value }) => value);
}

/** Null: its end was reported. */
export function* keepAlarm(name: AlarmName, alarm: StoredAlarm | null): Work<void> {
  yield* put(`${prefix}${alarmKey(name)}`, alarm);
}
