import { Connection } from "../load/connection.ts";
import { type Latency, latencyOf } from "../load/measure.ts";
import { answerParent } from "../process/child.ts";

/**
 * Sends for so long over so many kept connections; `rate` null: each connection sends again once it
 * is answered.
 */
export interface SendOrder {
  readonly port: number;
  readonly key: string;
  readonly templateId: string;
  readonly connections: number;
  readonly ms: number;
  readonly rate: number | null;
  /** People written to, one after the other, over and over. */
  readonly people: number;
}

export interface Sends {
  readonly answered: number;
  /** From the first one sent to the last one answered. */
  readonly seconds: number;
  /** From when a send should have gone, so that what a stall held up counts too. */
  readonly latency: Latency;
}

/**
 * Each of these makes three events, whatever is drawn: sent, read, delivered
 * (docs/contributing/sandbox.md, "Numbers with a fixed outcome").
 */
const ending = "0007";
let sent = 0;

answerParent((order) => run(order as SendOrder));

async function run({
  port,
  key,
  templateId,
  connections: count,
  ms,
  rate,
  people,
}: SendOrder): Promise<Sends> {
  const head = `POST /api/v1/messages HTTP/1.1\r\nhost: sandbox\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n`;
  const request = () => {
    const to = `+54911${String(sent++ % people).padStart(6, "0")}${ending}`;
    const body = `{"to":"${to}","template":{"id":"${templateId}"}}`;
    return Buffer.from(`${head}content-length: ${body.length}\r\n\r\n${body}`, "latin1");
  };
  const times: number[] = [];
  const idle: Connection[] = [];
  const { promise: over, resolve, reject } = Promise.withResolvers<void>();
  let begun = 0;
  let startedAt = 0;
  let lastAt = 0;
  const dueAt = (number: number) => startedAt + (rate === null ? 0 : (number * 1000) / rate);
  const isDue = (now: number) =>
    rate === null ? now < startedAt + ms : dueAt(begun) <= now && dueAt(begun) < startedAt + ms;
  const go = (connection: Connection, now: number) => {
    if (!isDue(now)) return void idle.push(connection);
    const since = rate === null ? now : dueAt(begun);
    begun += 1;
    connection.send(request(), begun, since);
  };
  const answered = (connection: Connection, status: number) => {
    lastAt = performance.now();
    times.push(lastAt - connection.since);
    if (status !== 201) reject(new Error(`a send was answered ${status}`));
    go(connection, lastAt);
  };
  const lost = (_connection: Connection, error: Error | null) =>
    reject(error ?? new Error("the sandbox closed a connection"));
  const connections = Array.from({ length: count }, () => new Connection(port, answered, lost));
  await Promise.all(connections.map((connection) => connection.open()));

  startedAt = performance.now();
  for (const connection of connections) go(connection, startedAt);
  // A timer's millisecond, unlike spinning, leaves the core to the relay beside us.
  const timer = setInterval(() => {
    const now = performance.now();
    while (idle.length > 0 && isDue(now)) go(idle.pop() as Connection, now);
    if (now >= startedAt + ms && !isDue(now) && idle.length === count) resolve();
  }, 1);
  try {
    await over;
  } finally {
    clearInterval(timer);
    for (const connection of connections) connection.close();
  }
  return {
    answered: times.length,
    seconds: (lastAt - startedAt) / 1000,
    latency: latencyOf(Float64Array.from(times)),
  };
}
