import { RelayError } from "../model/errors.ts";
import {
  keysOf,
  mostSteps,
  type QualityQuery,
  type QualityView,
  type SeriesQuery,
  type SeriesView,
  seriesQuery,
} from "../model/history.ts";
import type { Handlers } from "./endpoint.ts";

export interface HistoryPort {
  readonly now: () => number;
  series(query: SeriesQuery): Promise<SeriesView>;
  quality(query: QualityQuery): Promise<QualityView>;
}

const dayMs = 86_400_000;
/** Events that a quality by route or reference reads: the page waits for them, some 50 ms on the embedded engine. */
const mostEvents = 15_000;

export function createHistoryHandlers(port: HistoryPort) {
  return {
    getSeries({ to, from, ...given }) {
      const now = port.now();
      refuseReversed(from, to ?? now);
      const { name, by } = given;
      const keys = keysOf(name);
      if (by !== undefined && !keys.includes(by)) {
        throw badParameter(
          "by",
          keys.length === 0 ? `${name} has nothing to split it by` : `must be one of ${keys.join(", ")} for ${name}`,
        );
      }
      const query = seriesQuery({ ...given, from, to }, now);
      const steps = (query.to - query.from) / query.step / 1000;
      if (steps > mostSteps) throw badParameter("step", `gives ${steps} values; the most are ${mostSteps}`);
      return port.series(query);
    },
    getQuality({ to = port.now(), from = to - dayMs, route, reference }) {
      refuseReversed(from, to);
      return port.quality({ from, to, route, reference, most: mostEvents });
    },
  } satisfies Partial<Handlers>;
}

function badParameter(path: string, message: string): RelayError {
  return new RelayError("bad_request", `${path}: ${message}`, [{ path, message }]);
}

function refuseReversed(from: number | undefined, to: number): void {
  if (from !== undefined && from >= to) throw badParameter("from", "must be before to");
}
