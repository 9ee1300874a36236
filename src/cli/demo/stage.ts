import type { Cleanup } from "../../app/cleanup.ts";
import type { RelayClient } from "../../client/relay-client.ts";
import type { Downstream } from "../../sandbox/downstream/downstream.ts";
import type { Check, PostLog } from "./checks.ts";
import type { DemoCounts } from "./progress.ts";
import type { RelayStats } from "./relay.ts";

export interface Amounts {
  readonly seed: string;
  /** Messages sent through the client; of the service, a campaign and automation runs come on top. */
  readonly messages: number;
  /** Sends per second. */
  readonly rate: number;
}

/** What a demo has, whoever posts the webhooks: a relay, a downstream, and what is shown of them. */
export interface Stage extends Amounts {
  /** Of the relay. */
  readonly url: string;
  /** Verifies webhooks. */
  readonly secret: string;
  readonly control: RelayClient;
  readonly downstream: Downstream;
  readonly signal: AbortSignal;
  readonly adopt: Cleanup["adopt"];
  /** To be called before the first send. The returned function resolves once nothing waits at the relay. */
  begin(shown: {
    /** URL of the service. */
    readonly service: string;
    /** Messages that the service accepted so far. */
    readonly sent: () => number;
    readonly log: Pick<PostLog, "counts">;
  }): () => Promise<{ readonly stats: RelayStats; readonly counts: DemoCounts }>;
}

export interface Played {
  readonly counts: DemoCounts;
  readonly checks: readonly Check[];
}
