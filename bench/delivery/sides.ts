import { type EventSet, wamidsOf } from "../events.ts";
import { type Child, startChild } from "../process/start-child.ts";
import { startRelay } from "../process/start-relay.ts";

/** One relay under test, with a destination of its own. */
export interface DeliverySide {
  readonly name: DeliverySideName;
  readonly port: number;
  readonly pid: number;
  readonly sink: Child;
  expect(set: EventSet): Promise<void>;
}

export const deliverySideNames = ["bare", "relay"] as const;
export type DeliverySideName = (typeof deliverySideNames)[number];

/**
 * Starts a side with as many deliveries in flight as `concurrency`; everything is ended with
 * `stack`.
 */
export async function startDeliverySide(
  name: DeliverySideName,
  concurrency: number,
  stack: AsyncDisposableStack,
): Promise<DeliverySide> {
  const sink = await startChild("servers/sink.ts");
  stack.defer(() => sink.stop());
  const destination = `http://127.0.0.1:${sink.port}/events`;
  if (name === "bare") {
    const server = await startChild("servers/bare-relay.ts", [destination, String(concurrency)]);
    stack.defer(() => server.stop());
    return { name, port: server.port, pid: server.pid, sink, expect: async () => {} };
  }
  const relay = await startRelay({ destination, concurrency });
  stack.defer(() => relay.stop());
  return {
    name,
    port: relay.port,
    pid: relay.pid(),
    sink,
    expect: (set) => relay.register(wamidsOf(set)),
  };
}
