import { afterAll, beforeAll, describe } from "vitest";
import { type Redis, startRedis } from "../setup/redis.ts";
import { acceptingContract } from "./accepting-contract.ts";
import { askContract } from "./ask-contract.ts";
import { groupContract } from "./group-contract.ts";
import { hydrationContract } from "./hydration-contract.ts";
import { orderContract } from "./order-contract.ts";
import { parkingContract } from "./parking-contract.ts";
import { parkingModelContract } from "./parking-model-contract.ts";
import { proofsContract } from "./proofs-contract.ts";
import { queueModelContract } from "./queue-model-contract.ts";
import { openRedisSubject } from "./redis-subject.ts";
import { retentionContract } from "./retention-contract.ts";
import { sendContract } from "./send-contract.ts";
import { settlingContract } from "./settling-contract.ts";
import type { OpenSubject } from "./store-port.ts";
import { trackingContract } from "./tracking-contract.ts";

let redis: Redis;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

const open: OpenSubject = (rules) => openRedisSubject(redis.url, rules);

describe("redis: the store's contract", () => {
  acceptingContract(open);
  groupContract(open);
  trackingContract(open);
  orderContract(open);
  settlingContract(open);
  queueModelContract(open);
  askContract(open);
  hydrationContract(open);
  sendContract(open);
  retentionContract(open);
  parkingModelContract(open);
  parkingContract(open);
  proofsContract(open);
});
