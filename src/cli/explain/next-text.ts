import { timeText } from "../output.ts";
import type { NextView } from "./views.ts";

/** What comes next of a delivery, in words. */
export function nextText(
  { kind, at, behind, ahead, reason }: NextView,
  { route, id }: { readonly route: string; readonly id: string },
): string {
  switch (kind) {
    case "attempt":
      return `attempt ${timeText(at)}`;
    case "due":
      return `due since ${timeText(at)}; it goes out when its turn has come`;
    case "exchange":
      return "the exchange is under way";
    case "held": {
      if (behind === null) return "held behind an earlier one of its message";
      return `held until that of event ${behind} is settled${ahead === 0 ? "" : `, and ${ahead} more after it`}`;
    }
    case "breaker":
      return `its destination fails, and attempts pause; this one is due ${timeText(at)}`;
    case "paused":
      return `its destination asked to wait (429) until ${timeText(at)}; start it earlier with: wamid-relay resume ${route}`;
    case "stopped":
      return `nothing: the destination is stopped (${reason ?? "?"}); start it with: wamid-relay resume ${route}`;
    case "no route":
      return "nothing: its route is not in the settings";
    case "dead":
      return `nothing; send it again with: wamid-relay retry ${id}`;
    default:
      return kind;
  }
}
