// @module-tag slow: it kills the relay at random moments, on both databases.
import { createHmac } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { createRandom } from "../../src/sandbox/ids.ts";
import { auditOf } from "../harness/ask-relay.ts";
import { openDownstream } from "../harness/downstream.ts";
import { startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { soakSize } from "../harness/soak.ts";
import { until } from "../harness/until.ts";
import { createDatabase } from "../setup/database.ts";
import { testSeed as seed } from "../setup/seed.ts";

const kills = soakSize(3, 20);
const secret = "an app secret of Meta";
const itemsOfBatch = 100;

function batchOf(number: number): Buffer {
  const statuses = Array.from({ length: itemsOfBatch }, (_, item) => ({
    id: `wamid.${number}.${item}`,
    status: "sent",
    timestamp: "1750263773",
    recipient_id: "16505551234",
  }));
  const value = { messaging_product: "whatsapp", metadata: { phone_number_id: "1" }, statuses };
  return Buffer.from(
    JSON.stringify({
      object: "whatsapp_business_account",
      entry: [{ id: "2", changes: [{ field: "messages", value }] }],
    }),
  );
}

test.each(["sqlite", "postgres"])(
  "kills -9 while batches of Meta's are stored lose and double nothing on %s",
  async (driver) => {
    const random = createRandom(seed).fork(driver);
    const database = driver === "postgres" ? await createDatabase() : null;
    const downstream = await openDownstream({ keepBodies: false });
    const relay = await startRelay({
      settings: {
        log: { level: "warn" },
        ...(database === null
          ? {}
          : { storage: { driver, url: database.url, schema: "relay", path: undefined } }),
        sources: { wa: { format: "meta", signature: { secrets: [secret] } } },
        routes: [routeTo(downstream.url, { to: { concurrency: 32 } })],
      },
    });

    /** Posts until the relay answers 200, as Meta does. */
    async function post(number: number): Promise<number> {
      const body = batchOf(number);
      const headers = {
        "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
      };
      for (let repeats = 0; ; repeats += 1) {
        const answer = await fetch(`${relay.url}/webhooks/wa`, {
          method: "POST",
          headers,
          body,
        }).catch(() => null);
        await answer?.arrayBuffer().catch(() => null);
        if (answer?.status === 200) return repeats;
        await wait(20);
      }
    }

    let posted = 0;
    let repeated = 0;
    let isOver = false;
    const sending = Array.from({ length: 4 }, async () => {
      while (!isOver) {
        posted += 1;
        repeated += await post(posted);
      }
    });
    for (let killed = 0; killed < kills; killed += 1) {
      const before = posted;
      await until("batches are taken", () => posted > before + 2);
      await wait(random.below(60));
      await relay.kill9();
      await relay.start();
    }
    isOver = true;
    await Promise.all(sending);
    expect(repeated).toBeGreaterThan(0);

    const expected = posted * itemsOfBatch;
    await until(
      "all is delivered",
      () => new Set(downstream.arrivals.map(({ deliveryId }) => deliveryId)).size >= expected,
    );
    const audit = await auditOf(relay);
    expect(audit).toMatchObject({
      balanced: true,
      offenders: [],
      events: { received: expected, routed: expected },
    });
    await relay.dispose();
    await database?.drop();
  },
);
