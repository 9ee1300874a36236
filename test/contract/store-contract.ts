import { describe } from "vitest";
import { acceptingContract } from "./accepting-contract.ts";
import { auditContract } from "./audit-contract.ts";
import { claimsContract } from "./claims-contract.ts";
import type { OpenSubject } from "./contract-store.ts";
import { groupContract } from "./group-contract.ts";
import { historyContract } from "./history-contract.ts";
import { hydrationContract } from "./hydration-contract.ts";
import { orderContract } from "./order-contract.ts";
import { parkingModelContract } from "./parking-model-contract.ts";
import { pollContract } from "./poll-contract.ts";
import { quarantineContract } from "./quarantine-contract.ts";
import { queueModelContract } from "./queue-model-contract.ts";
import { retentionContract } from "./retention-contract.ts";
import { searchContract } from "./search-contract.ts";
import { secretUsesContract } from "./secret-uses-contract.ts";
import { sendContract } from "./send-contract.ts";
import { setAsideContract } from "./set-aside-contract.ts";
import { settlingContract } from "./settling-contract.ts";
import { trackingContract } from "./tracking-contract.ts";

const contracts: Readonly<Record<string, (open: OpenSubject) => void>> = {
  accepting: acceptingContract,
  quarantine: quarantineContract,
  "writes of one group": groupContract,
  tracking: trackingContract,
  order: orderContract,
  "settling, retry and replay": settlingContract,
  "an event that planning fails on": setAsideContract,
  "parking by a model": parkingModelContract,
  "secret usage": secretUsesContract,
  claims: claimsContract,
  retention: retentionContract,
  polls: pollContract,
  audit: auditContract,
  search: searchContract,
  sending: sendContract,
  hydration: hydrationContract,
  "the queue by a model": queueModelContract,
  history: historyContract,
};

/** What every store keeps to, whichever engine it is. `open` gives a new and empty one. */
export function storeContract(engine: string, open: OpenSubject): void {
  for (const [name, contract] of Object.entries(contracts))
    describe(`${engine}: ${name}`, () => contract(open));
}
