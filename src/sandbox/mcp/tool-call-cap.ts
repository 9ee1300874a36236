import type { Clock } from "../../model/clock.ts";
import { limitsOf } from "../api/fault.ts";
import { createMinuteWindow, type MinuteWindow } from "../limits/minute-window.ts";
import type { AppRecord, Plan } from "../world/records.ts";

/**
 * "MCP tool calls per minute, per app" (messaging-service-api.md, "Automations and MCP"). The returned function counts a
 * call and says whether there was room; a refused one does not count.
 */
export function createToolCallCap(clock: Pick<Clock, "now">): (app: AppRecord, plan: Plan) => boolean {
  const windows = new Map<string, MinuteWindow>();
  return (app, plan) => {
    let window = windows.get(app.id);
    if (window === undefined) {
      window = createMinuteWindow();
      windows.set(app.id, window);
    }
    const now = clock.now();
    if (window.count(now) >= limitsOf(plan).toolCalls) return false;
    window.add(now);
    return true;
  };
}
