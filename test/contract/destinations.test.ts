import { Queue } from "bullmq";
import { Webhook } from "standardwebhooks";
import { describe, expect, onTestFinished, test } from "vitest";
import { probeDestinations } from "../../src/cli/doctor/network.ts";
import { parseSettings } from "../../src/config/load.ts";
import type { Destination } from "../../src/deliver/destinations/destination.ts";
import {
  createDestinations,
  type DestinationKind,
  destinationKeys,
  destinationSchema,
} from "../../src/deliver/settings.ts";
import { redisForTest } from "../harness/redis-states.ts";
import { until } from "../harness/until.ts";
import { attempt, delivery, look } from "../integration/deliver-queue/destinations.ts";
import { startHttp } from "../integration/url-destination/downstream.ts";

interface Received {
  readonly deliveryId: unknown;
  readonly event: unknown;
  readonly attempt: number;
  readonly body: Buffer;
  readonly signed: Record<string, string>;
}

/** A receiver for one kind of destination. */
interface Receiver {
  /** Settings of a destination that leads to it. */
  readonly to: Readonly<Record<string, unknown>>;
  received(): Promise<readonly Received[]>;
  /** From now on it accepts connections and never answers. */
  hang(): void;
}

const receivers: { readonly [Kind in DestinationKind]: () => Promise<Receiver> } = {
  async url() {
    let hangs = false;
    const downstream = await startHttp((_request, response) => void (hangs || response.end()));
    return {
      to: { url: downstream.url, allowPrivate: true },
      received: async () =>
        downstream.seen.map(({ headers, body }) => ({
          deliveryId: headers["webhook-id"],
          event: headers["x-wamid-relay-event"],
          attempt: Number(headers["webhook-attempt"]),
          body,
          signed: headers as Record<string, string>,
        })),
      hang: () => {
        hangs = true;
      },
    };
  },
  async queue() {
    const { url, hang } = await redisForTest();
    const queue = new Queue("contract", { connection: look(url) });
    onTestFinished(() => queue.close());
    return {
      to: { queue: "contract", redis: url },
      received: async () =>
        (await queue.getJobs(["waiting"])).map(({ data }) => ({
          ...data,
          body: Buffer.from(data.body, data.encoding),
          signed: data.headers,
        })),
      hang,
    };
  },
  async stream() {
    const { url, hang } = await redisForTest();
    const client = look(url);
    return {
      to: { stream: "contract", redis: url },
      received: async () =>
        (await client.xrangeBuffer("contract", "-", "+")).map(([, fields]) => {
          const pairs = fields.flatMap((name, index) =>
            index % 2 === 0 ? [[String(name), fields[index + 1]] as const] : [],
          );
          const {
            deliveryId,
            event,
            attempt,
            body = Buffer.alloc(0),
            headers = "{}",
          } = Object.fromEntries(pairs);
          return {
            deliveryId: String(deliveryId),
            event: String(event),
            attempt: Number(attempt),
            body,
            signed: JSON.parse(String(headers)),
          };
        }),
      hang,
    };
  },
};

function open(to: Readonly<Record<string, unknown>>): Destination {
  const destination = createDestinations(Date.now)(destinationSchema.parse(to));
  onTestFinished(() => destination.close());
  return destination;
}

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

describe.each(destinationKeys)("a destination of kind %s", (kind) => {
  test("delivers the exact bytes with id, event, attempt and a Standard Webhooks signature", async () => {
    const { to, received } = await receivers[kind]();
    const { result } = await attempt(open({ ...to, secret }), { attempt: 3 });
    expect(["taken", "answered"]).toContain(result.kind);
    const [one, ...others] = await received();
    expect(others).toEqual([]);
    expect(one).toMatchObject({ deliveryId: delivery.id, event: delivery.event, attempt: 3 });
    expect(one?.body.equals(delivery.body)).toBe(true);
    new Webhook(secret).verify(one?.body ?? "", one?.signed ?? {});
  });

  test("reports a receiver that does not answer as a failure", async () => {
    const { to, hang } = await receivers[kind]();
    const destination = open({ ...to, timeout: "200ms" });
    // The timeout is short: a busy machine may need several attempts to connect.
    await until("it answers", async () => (await attempt(destination)).result.kind !== "failed");
    hang();
    const { result } = await attempt(destination);
    expect(result).toMatchObject({
      kind: "failed",
      error: expect.stringMatching(/^(timeout|hung)$/),
    });
  });

  test("ends attempts as aborted when it is closed, lets them end when it is retired, and sends nothing after that", async () => {
    const { to, hang, received } = await receivers[kind]();
    const destination = open({ ...to, timeout: "5m" });
    const aborted = { kind: "failed", error: "aborted" };
    const last = attempt(destination);
    await destination.retire();
    expect((await last).result.kind).not.toBe("failed");
    expect((await attempt(destination)).result.kind).toBe("failed");
    expect(await received()).toHaveLength(1);

    const other = open({ ...to, timeout: "5m" });
    await attempt(other);
    hang();
    const sending = [attempt(other), attempt(other)];
    const retired = other.retire();
    await other.close();
    await retired;
    for (const outcome of await Promise.all(sending)) expect(outcome.result).toEqual(aborted);
    expect((await attempt(other)).result).toEqual(aborted);
  });

  test("is checked by doctor", async () => {
    const { to } = await receivers[kind]();
    const settings = parseSettings(
      JSON.stringify({ routes: [{ name: "only", to }] }),
      "relay.yaml",
      {},
    );
    const findings = (await probeDestinations(settings)).flatMap(({ findings }) => findings);
    expect(findings.map(({ message }) => message).join("\n")).toContain("only");
  });
});
