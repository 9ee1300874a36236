import { describe } from "vitest";
import { acceptingContract } from "./accepting-contract.ts";
import { auditContract } from "./audit-contract.ts";
import { claimsContract } from "./claims-contract.ts";
import type { OpenSubject } from "./contract-store.ts";
import { groupContract } from "./group-contract.ts";
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

/** What every store keeps to, whichever engine it is. `open` gives a new and empty one. */
export function storeContract(engine: string, open: OpenSubject): void {
  describe(`${engine}: the store's contract`, () => {
    acceptingContract(open);
    quarantineContract(open);
    groupContract(open);
    trackingContract(open);
    orderContract(open);
    settlingContract(open);
    setAsideContract(open);
    parkingModelContract(open);
    secretUsesContract(open);
    claimsContract(open);
    retentionContract(open);
    pollContract(open);
    auditContract(open);
    searchContract(open);
    sendContract(open);
    hydrationContract(open);
    queueModelContract(open);
  });
}
