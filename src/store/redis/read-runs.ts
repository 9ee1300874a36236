import { shownMetadata } from "../../event/metadata.ts";
import type { RunReading } from "../reading.ts";
import type { RunFilter, RunView } from "../views.ts";
import { runName } from "./keys.ts";
import type { NumberedSubject, ReadSubjects } from "./read-subjects.ts";

const all = ["registered:r", "seen:r"];

export function createReadRuns(subjects: ReadSubjects) {
  return {
    bounds: () => subjects.bounds(all),
    /** Newest first. */
    async list({ account, status, reference, runId, after, before, limit }: RunFilter): Promise<(RunView & { readonly seq: number })[]> {
      const isAll = account === undefined && status === undefined && reference === undefined;
      const isMeant = ({ account: of, row }: NumberedSubject): boolean =>
        (account === undefined || of === account) &&
        (status === undefined || row.status === status) &&
        (reference === undefined || row.reference === reference);
      if (runId !== undefined) {
        const names = (await subjects.accounts()).map((name) => runName(name, runId));
        const found = (await subjects.named("r", names)).filter((run) => run.seq > after && run.seq < before && isMeant(run));
        return found.slice(0, limit).map(viewOf);
      }
      const lists = reference === undefined ? all : [`ref:r:${reference}`];
      return (await subjects.list(lists, { after, before, limit }, isAll ? null : isMeant)).map(viewOf);
    },
  } satisfies RunReading;
}

function viewOf({ seq, account, key, row }: NumberedSubject): RunView & { readonly seq: number } {
  return {
    seq,
    account,
    runId: key,
    reference: row.reference,
    metadata: shownMetadata(row.metadata),
    status: row.status,
    error: row.error,
    times: row.times,
    registeredAt: row.registeredAt,
    updatedAt: row.updatedAt,
  };
}
