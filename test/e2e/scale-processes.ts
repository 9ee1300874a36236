import { makeRelay, type RelayOptions, type RelayProcess } from "../harness/relay-process.ts";
import type { SettingsParts } from "../harness/relay-settings.ts";

/** A process of a distributed relay that is killed and comes back. */
export interface Killable {
  readonly name: string;
  readonly role: "receive" | "work";
  readonly relay: RelayProcess;
  /** Of all its processes so far. */
  readonly pids: ReadonlySet<number>;
  /** SIGKILL, at any moment, also while it starts. It starts again at once. */
  kill(): Promise<void>;
  /** Resolves when it is ready; rejects when it ended or did not get ready by itself. */
  ready(): Promise<void>;
}

/**
 * Started, and ready. All have the same settings and a port of their own, and in `PROCESS` a name
 * such as `work-2`.
 */
export async function startProcesses(
  receivers: number,
  workers: number,
  settings: SettingsParts,
): Promise<Killable[]> {
  const wanted = [
    ...Array<"receive">(receivers).fill("receive"),
    ...Array<"work">(workers).fill("work"),
  ];
  const processes = await Promise.all(
    wanted.map((role, n) => make(`${role}-${n + 1}`, { settings, role })),
  );
  await Promise.all(processes.map((one) => one.ready()));
  return processes;
}

async function make(
  name: string,
  options: RelayOptions & { readonly role: Killable["role"] },
): Promise<Killable> {
  const { role } = options;
  const relay = await makeRelay({ ...options, env: { PROCESS: name } });
  const pids = new Set<number>();
  let killing = false;
  let failure: unknown = null;
  let starting: Promise<void> = Promise.resolve();

  function start(): void {
    starting = relay.start().then(
      () => {},
      (error: unknown) => {
        if (!killing) failure = error;
      },
    );
    pids.add(relay.pid());
  }

  start();
  return {
    name,
    role,
    relay,
    pids,
    async kill() {
      killing = true;
      await relay.kill9();
      await starting;
      killing = false;
      start();
    },
    async ready() {
      await starting;
      if (failure !== null) throw failure;
      if (!relay.isRunning())
        throw new Error(`${name} has ended by itself: ${relay.stderr().slice(-2000)}`);
    },
  };
}
