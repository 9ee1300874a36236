import type { DatabaseFacts } from "../../src/model/database.ts";

/** Of a server without a risk. */
export const soundDatabase: DatabaseFacts = {
  version: "18.4",
  isReplica: false,
  isReadOnly: false,
  fsync: true,
  fullPageWrites: true,
  synchronousCommit: "on",
  synchronousStandbys: "",
  standbys: 0,
  connectedSynchronous: 0,
  connectionsLeft: 80,
  seesSessions: true,
  transaction: null,
  skewMs: 10,
  roundTripMs: 1,
  bytes: 2_000_000,
};
