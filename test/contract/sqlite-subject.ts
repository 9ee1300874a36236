import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ReplayCursor, ReplayFound } from "../../src/store/port.ts";
import type { DueDelivery, Rules } from "../../src/store/rules.ts";
import { openSqliteStore, type SqliteStore } from "../../src/store/sqlite/open.ts";
import { auditFile, qualityOfFile, seriesOfFile } from "../harness/audit-file.ts";
import { rowsOf } from "../harness/store-rows.ts";
import type { ContractStore, ContractSubject } from "./store-port.ts";

const quiet = { committed: () => {}, failed: () => {} };

/** The embedded engine's store on a file in a temporary folder. */
export async function openSqliteSubject(rules: Rules): Promise<ContractSubject & { readonly path: string; close(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), "store-contract-"));
  const path = join(folder, "relay.db");
  let store = openSqliteStore(path, rules, quiet);
  let isOpen = true;
  async function close(): Promise<void> {
    if (isOpen) await store.close();
    isOpen = false;
  }
  return {
    path,
    /** The file stays until `end`. */
    close,
    store: contractOf(store, path),
    async reopen(other = rules) {
      await store.close();
      store = openSqliteStore(path, other, quiet);
      return contractOf(store, path);
    },
    async end() {
      await close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function contractOf(store: SqliteStore, path: string): ContractStore {
  return {
    read: store.read,
    accept: store.accept,
    quarantine: store.quarantine,
    nameRequest: store.nameRequest,
    claimOnce: store.claimOnce,
    notePass: store.notePass,
    lastPasses: store.lastPasses,
    isClaimed: store.isClaimed,
    findQuarantined: store.findQuarantined,
    quarantined: store.quarantined,
    release: store.release,
    register: store.register,
    registerEach: store.registerEach,
    due: store.due,
    nextDueAt: store.nextDueAt,
    load: store.load,
    settle: store.settle,
    stopReason: store.stopReason,
    resume: store.resume,
    retry: store.retry,
    async replay(filter, at, afterStep) {
      const all = { replayed: 0, due: [] as DueDelivery[] };
      let cursor: ReturnType<typeof store.findReplay>["cursor"] = { since: at, event: 0, route: 0 };
      while (cursor !== null) {
        const step: ReturnType<typeof store.findReplay> = store.findReplay(filter, cursor, at, 3);
        const done = await store.replay(step.found, filter.states, at);
        all.replayed += done.replayed;
        all.due.push(...done.due);
        await afterStep?.(done.due);
        cursor = step.cursor;
      }
      return all;
    },
    async replayFiltered(at) {
      const filter = { disposition: "filtered" } as const;
      const all = { replayed: 0, due: [] as DueDelivery[] };
      let cursor: ReplayCursor | null = { since: at, event: 0, route: 0 };
      while (cursor !== null) {
        const step: ReplayFound = await store.findBackfill(filter, cursor, 3);
        const done = await store.backfill([...new Set(step.found.map(({ event }) => event))], filter, at);
        all.replayed += done.replayed;
        all.due.push(...done.due);
        cursor = step.cursor;
      }
      return all;
    },
    releaseParked: store.releaseParked,
    expireParked: async (now, limit) => (await store.expireParked(now, limit)).concluded,
    purge: store.purge,
    audit: (now, filter = {}) => auditFile(path, { now, ...filter }),
    series: (query) => seriesOfFile(path, query),
    quality: (query) => qualityOfFile(path, query),
    noteAcknowledged: store.noteAcknowledged,
    sampleGauges: store.sampleGauges,
    secretUses: store.read.secretUses,
    findSend: store.findSend,
    beginSend: store.beginSend,
    settleSend: store.settleSend,
    forgetSends: store.forgetSends,
    claimPolls: store.claimPolls,
    settlePolls: store.settlePolls,
    countPolls: store.countPolls,
    serviceCalls: store.serviceCalls,
    addServiceCalls: store.addServiceCalls,
    waitingAccounts: store.waitingAccounts,
    waitingSince: store.waitingSince,
    beginPass: store.beginPass,
    covered: store.covered,
    targets: store.targets,
    settleTarget: store.settleTarget,
    trackedMessages: store.trackedMessages,
    noteReads: store.noteReads,
    callsSince: store.callsSince,
    settleCovered: store.settleCovered,
    endPass: store.endPass,
    seqsOf: store.read.events.seqsOf,
    event: (seq) => store.read.events.get(seq),
    delivery(event, route) {
      const found = store.read.deliveries.list({ event, route, limit: 1 })[0];
      return found === undefined ? null : { ...found, attemptHistory: store.read.deliveries.attempts(found) };
    },
    message(account, wamid) {
      const [row] = rowsOf<Record<string, string | number | null>>(
        path,
        "SELECT m.* FROM messages m JOIN names a ON a.id = m.account WHERE a.kind = 'account' AND a.name = ? AND m.wamid = ?",
        account,
        wamid,
      );
      if (row === undefined) return null;
      return {
        status: row["status"] as string | null,
        errorCode: row["error_code"] as string | null,
        registeredAt: row["registered_at"] as number | null,
        reference: row["reference"] as string | null,
        times: JSON.parse(row["times"] as string),
      };
    },
    run: (account, runId) =>
      rowsOf<{ status: string | null }>(
        path,
        "SELECT r.status FROM runs r JOIN names a ON a.id = r.account WHERE a.kind = 'account' AND a.name = ? AND r.run_id = ?",
        account,
        runId,
      )[0] ?? null,
  };
}
